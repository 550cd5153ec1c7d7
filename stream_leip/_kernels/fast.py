"""Which liberties a kernel's arithmetic may take."""

# Sums may be reordered so that they vectorise; NaN and infinity keep their meaning.
# A kernel that does so, itself or in a call, has `forceinline=True` where another kernel calls it.
# Else the two have a compiled copy each, with sums in orders of their own, and which of them runs
# depends on what the process loaded first: last digits would differ between processes.
# Strict kernels say `fastmath=False`: a silent one is compiled as its first caller is.
FAST = {"reassoc", "contract", "arcp", "nsz"}
# A product and the sum it goes into are rounded once, which is the same in every copy of a loop.
FUSED = {"contract"}
