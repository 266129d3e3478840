import triton
import triton.language as tl


@triton.jit
def kernel_pack_W(W, W_packed):
    # axes: d0 < 64, d1 < 3, d2 < 3, d1_d2 < 9
    # grid: d1_d2o < 1, d0o < 1
    # block: d1_d2i < 16 x d0i < 64
    d1_d2i = tl.arange(0, 16)
    d0i = tl.arange(0, 64)
    W_at = W + ((d0i * 9)[None, :] + d1_d2i[:, None])
    W_packed_tile = tl.load(W_at, mask=(d1_d2i < 9)[:, None], other=0.0)
    W_packed_at = W_packed + (d0i[None, :] + (d1_d2i * 64)[:, None])
    tl.store(W_packed_at, W_packed_tile, mask=(d1_d2i < 9)[:, None])


import triton
import triton.language as tl


@triton.jit
def kernel(X, W_packed, Y):
    # axes: n < 2, y < 30, x < 30, g < 64, n_y_x < 1800
    # grid: n_y_x0 < 29, g0 < 1
    # block: n_y_x1 < 64 x g1 < 64
    # loops: r < 3, s < 3
    n_y_x1 = tl.arange(0, 64)
    g1 = tl.arange(0, 64)
    n_y_x0 = tl.program_id(0)
    n_y_x = n_y_x0 * 64 + n_y_x1
    y = n_y_x // 30 % 30
    x = n_y_x % 30
    X_at = X + (n_y_x0 * 4096) + (g1[None, :] + (n_y_x1 * 64)[:, None])
    W_packed_at = W_packed + g1
    acc = tl.zeros([64, 64], tl.float32)
    for r in tl.static_range(3):
        for s in tl.static_range(3):
            X_tile = tl.load(X_at + (r * 1920 + s * 64 - 1984), mask=(n_y_x < 1800)[:, None] & ((y + (r - 1)) >= 0)[:, None] & ((y + (r - 1)) < 30)[:, None] & ((x + (s - 1)) >= 0)[:, None] & ((x + (s - 1)) < 30)[:, None], other=0.0).to(tl.float32)
            W_packed_tile = tl.load(W_packed_at + (r * 192 + s * 64)).to(tl.float32)
            acc = acc + X_tile * W_packed_tile[None, :]
    Y_tile = tl.maximum(acc, 0.0, propagate_nan=tl.PropagateNan.ALL).to(tl.float16)
    Y_at = Y + (n_y_x0 * 4096) + (g1[None, :] + (n_y_x1 * 64)[:, None])
    tl.store(Y_at, Y_tile, mask=(n_y_x < 1800)[:, None])
