"""The sandboxed side of the verifier: runs in the zygote and its children, never in the host.

They import the smallest part of the standard library: what is loaded makes every fork slower.
"""
