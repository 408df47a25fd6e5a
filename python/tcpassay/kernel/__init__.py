"""Linux kernels for the substrate `kernel`: User-Mode Linux, built from Debian's sources or from any source tree.

`linux.config` is the kernel configuration; `patches/` contains the patches with their reasons (GPL-2.0, like the
kernel). A kernel is built out of tree into the cache and identified by the hash of source, configuration and patches.
"""
