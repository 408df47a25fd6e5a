#!/bin/sh
# Runs a command as a stage of `make check`: prints when it begins and how long it took, and adds a line to a file.
# Usage: tools/stage.sh FILE NAME COMMAND ARG...
#        tools/stage.sh FILE            prints the stages of the file and their sum
set -eu
file=$1
if [ $# -eq 1 ]; then
	awk -F '\t' '{ printf "%5d s  %s\n", $1, $2; sum += $1 } END { printf "%5d s  in all\n", sum }' "$file"
	exit
fi
name=$2
shift 2
began=$(date +%s)
echo "[$(date +%T)] $name"
code=0
"$@" || code=$?
took=$(($(date +%s) - began))
echo "[$(date +%T)] $name: $took s$([ "$code" -eq 0 ] || echo ", exit code $code")"
printf '%d\t%s\n' "$took" "$name" >>"$file"
exit "$code"
