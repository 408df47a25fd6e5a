#!/bin/sh
# github.com/vishvananda/netlink v1.3.1 (Go): `Rate` of a TBF is bytes a second, that of an HTB class bits.
#
# Expected by most: one library, which programs of containers, CNI plugins and fault injectors use in place of tc, has
# one unit for fields of one name (none is documented). Seen, with Rate 10,000,000 and Buffer 20,000 in both:
# NewHtbClass divides the rate by 8 and takes the buffer for bytes, so that tc shows 10 Mbit/s and 20,000 bytes. Tbf
# passes both to the kernel: tc shows 80 Mbit/s, and the buffer is in units of 64 ns, here 12,800 bytes; the same
# Buffer at a tenth of the rate is a burst of 1,280 bytes, which no full packet passes. A path that is emulated with
# such a tool is eight times as fast, or blocked.
# Needs: Go 1.24 or newer, tc of iproute2, unshare; a Linux with user namespaces, sch_tbf and sch_htb.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
cat > go.mod <<'MOD'
module units

go 1.24

require (
	github.com/vishvananda/netlink v1.3.1
	github.com/vishvananda/netns v0.0.5 // indirect
	golang.org/x/sys v0.10.0 // indirect
)
MOD
cat > main.go <<'GO'
package main

import (
	"fmt"
	"os"
	"os/exec"

	"github.com/vishvananda/netlink"
)

func check(err error) {
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

func show(kind string) {
	text, err := exec.Command("tc", kind, "show", "dev", "lo").Output()
	check(err)
	fmt.Print(string(text))
}

func main() {
	link, err := netlink.LinkByName("lo")
	check(err)
	index := link.Attrs().Index
	root := netlink.QdiscAttrs{LinkIndex: index, Handle: netlink.MakeHandle(1, 0), Parent: netlink.HANDLE_ROOT}
	for _, rate := range []uint64{10_000_000, 1_000_000} {
		tbf := &netlink.Tbf{QdiscAttrs: root, Rate: rate, Limit: 100_000, Buffer: 20_000}
		check(netlink.QdiscAdd(tbf))
		show("qdisc")
		check(netlink.QdiscDel(tbf))
		htb := netlink.NewHtb(root)
		check(netlink.QdiscAdd(htb))
		attrs := netlink.ClassAttrs{LinkIndex: index, Parent: netlink.MakeHandle(1, 0), Handle: netlink.MakeHandle(1, 1)}
		check(netlink.ClassAdd(netlink.NewHtbClass(attrs, netlink.HtbClassAttrs{Rate: rate, Buffer: 20_000})))
		show("class")
		check(netlink.QdiscDel(htb))
	}
}
GO
GOFLAGS=-mod=mod go build -o units . 2> /dev/null
# In a network of its own.
seen=$(unshare -Urn ./units | sed -E 's/.*(tbf|htb) .*(rate [^ ]*) (.* )?(burst [^ ]*) .*/\1 \2 \4/')
echo "$seen"
[ "$seen" = "tbf rate 80Mbit burst 12800b
htb rate 10Mbit burst 20000b
tbf rate 8Mbit burst 1280b
htb rate 1Mbit burst 20000b" ]
