"""The sandboxed side of the verifier: runs in the zygote and its children, never in the host.

The modules here import nothing but the smallest part of the standard library, because every
module loaded in the zygote makes every later fork slower.
"""
