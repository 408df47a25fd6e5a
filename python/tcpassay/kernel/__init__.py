"""Linux kernels for the substrate `kernel`: User-Mode Linux, built from Debian's sources or from any tree.

`linux.config` is what such a kernel is made of, `patches/` what is changed in it and why (GPL-2.0, as the kernel is). A
kernel is built out of tree into the cache and found again by the hash of source, configuration and patches.
"""
