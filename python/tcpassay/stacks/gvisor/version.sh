#!/bin/sh
# Replaces the pinned version of gVisor: `sh version.sh VERSION` in a copy of this folder. Go compares the module with its checksum database.
set -eu
go get "gvisor.dev/gvisor@$1"
go mod tidy
