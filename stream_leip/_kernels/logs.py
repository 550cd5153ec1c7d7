"""Logarithms of many float32 numbers at once."""

import numpy as np
from numba import njit

from stream_leip._kernels.fast import FAST

_ROOT_HALF = 0x3F3504F3
_LN2 = 0.6931471805599453


@njit(cache=True, error_model="numpy", fastmath=FAST, forceinline=True)
def fill_logs(values, out):
    """Natural logarithms of positive, normal float32 `values`, to 1e-10; both arrays are flat.

    A library call a number is what costs most in the kernels that need them; this vectorises. The
    number is 2^k·v with v between √½ and √2, and log v = 2·atanh((v - 1)/(v + 1)).
    """
    bits = values.view(np.int32)
    scaled = np.empty(values.size, np.int32)
    for i in range(values.size):
        k = (bits[i] - _ROOT_HALF) >> 23
        scaled[i] = bits[i] - (k << 23)
        out[i] = k
    fraction = scaled.view(np.float32)
    for i in range(values.size):
        v = np.float64(fraction[i])
        s = (v - 1.0) / (v + 1.0)
        z = s * s
        series = 1.0 / 11.0 + z / 13.0
        series = 1.0 / 9.0 + z * series
        series = 1.0 / 7.0 + z * series
        series = 1.0 / 5.0 + z * series
        series = 1.0 / 3.0 + z * series
        out[i] = out[i] * _LN2 + 2.0 * s * (1.0 + z * series)
