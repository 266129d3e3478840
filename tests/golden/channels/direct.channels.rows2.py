import triton
import triton.language as tl


@triton.jit
def kernel(X, W, Y):
    # axes: n < 2, y < 30, x < 30, g < 64, y_rest < 15, n_y_rest_x < 900
    # grid: n_y_rest_x0 < 15, g0 < 1
    # block: n_y_rest_x1 < 64 x g1 < 64
    # loops: r < 3, s < 3, y_step < 2
    n_y_rest_x1 = tl.arange(0, 64)
    g1 = tl.arange(0, 64)
    n_y_rest_x0 = tl.program_id(0)
    n_y_rest_x = n_y_rest_x0 * 64 + n_y_rest_x1
    y_rest = n_y_rest_x // 30 % 15
    y = y_rest * 2
    x = n_y_rest_x % 30
    n = n_y_rest_x // 450
    X_at = X + ((n * 57600 + y_rest * 3840 + x * 64)[:, None] + g1[None, :])
    W_at = W + g1 * 9
    acc_0 = tl.zeros([64, 64], tl.float32)
    acc_1 = tl.zeros([64, 64], tl.float32)
    for r in tl.static_range(3):
        for s in tl.static_range(3):
            X_tile = tl.load(X_at + (r * 1920 + s * 64 - 1984), mask=(n_y_rest_x < 900)[:, None] & ((y + (r - 1)) >= 0)[:, None] & ((y + (r - 1)) < 30)[:, None] & ((x + (s - 1)) >= 0)[:, None] & ((x + (s - 1)) < 30)[:, None], other=0.0).to(tl.float32)
            W_tile = tl.load(W_at + (r * 3 + s)).to(tl.float32)
            acc_0 = acc_0 + X_tile * W_tile[None, :]
            X_tile_2 = tl.load(X_at + (r * 1920 + s * 64 - 64), mask=(n_y_rest_x < 900)[:, None] & ((y + r) >= 0)[:, None] & ((y + r) < 30)[:, None] & ((x + (s - 1)) >= 0)[:, None] & ((x + (s - 1)) < 30)[:, None], other=0.0).to(tl.float32)
            W_tile_2 = tl.load(W_at + (r * 3 + s)).to(tl.float32)
            acc_1 = acc_1 + X_tile_2 * W_tile_2[None, :]
    Y_tile = tl.maximum(acc_0, 0.0, propagate_nan=tl.PropagateNan.ALL).to(tl.float16)
    Y_at = Y + ((n * 57600 + y_rest * 3840 + x * 64)[:, None] + g1[None, :])
    tl.store(Y_at, Y_tile, mask=(n_y_rest_x < 900)[:, None])
    Y_tile_2 = tl.maximum(acc_1, 0.0, propagate_nan=tl.PropagateNan.ALL).to(tl.float16)
    Y_at_2 = Y + (1920) + ((n * 57600 + y_rest * 3840 + x * 64)[:, None] + g1[None, :])
    tl.store(Y_at_2, Y_tile_2, mask=(n_y_rest_x < 900)[:, None])
