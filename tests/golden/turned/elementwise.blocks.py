import triton
import triton.language as tl


@triton.jit
def kernel(X, Z, Y):
    # axes: i < 500, j < 300
    # grid: i0 < 8, j0 < 5
    # block: i1 < 64 x j1 < 64
    i1 = tl.arange(0, 64)
    j1 = tl.arange(0, 64)
    program = tl.program_id(0)
    i0 = program // 5
    j0 = program % 5
    j = j0 * 64 + j1
    i = i0 * 64 + i1
    X_at = X + (j0 * 32000 + i0 * 64) + ((j1 * 500)[None, :] + i1[:, None])
    X_tile = tl.load(X_at, mask=(j < 300)[None, :] & (i < 500)[:, None], other=0.0).to(tl.float32)
    Z_at = Z + (i0 * 19200 + j0 * 64) + ((i1 * 300)[:, None] + j1[None, :])
    Z_tile = tl.load(Z_at, mask=(i < 500)[:, None] & (j < 300)[None, :], other=0.0).to(tl.float32)
    Y_tile = tl.maximum((X_tile + Z_tile), 0.0, propagate_nan=tl.PropagateNan.ALL).to(tl.float16)
    Y_at = Y + (i0 * 19200 + j0 * 64) + ((i1 * 300)[:, None] + j1[None, :])
    tl.store(Y_at, Y_tile, mask=(i < 500)[:, None] & (j < 300)[None, :])
