"""Which liberties a kernel's arithmetic may take."""

# Sums may be reordered so that they vectorise; NaN and infinity keep their meaning.
FAST = {"reassoc", "contract", "arcp", "nsz"}
