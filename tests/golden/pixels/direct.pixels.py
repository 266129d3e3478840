import triton
import triton.language as tl


@triton.jit
def kernel(X, W, Y):
    # axes: g < 6, y < 17, x < 17, y_x < 289
    # grid: n < 2, g0 < 1, y_x0 < 5
    # block: g1 < 8 x y_x1 < 64
    # loops: r < 5, s < 5
    g1 = tl.arange(0, 8)
    y_x1 = tl.arange(0, 64)
    program = tl.program_id(0)
    n = program // 5
    y_x0 = program % 5
    y_x = y_x0 * 64 + y_x1
    y = y_x // 17
    x = y_x % 17
    X_at = X + (n * 6534) + ((g1 * 1089)[:, None] + (y * 66 + x * 2)[None, :])
    W_at = W + g1 * 25
    acc = tl.zeros([8, 64], tl.float32)
    for r in tl.static_range(5):
        for s in tl.static_range(5):
            X_tile = tl.load(X_at + (r * 33 + s - 68), mask=(g1 < 6)[:, None] & ((y * 2 + (r - 2)) >= 0)[None, :] & ((y * 2 + (r - 2)) < 33)[None, :] & ((x * 2 + (s - 2)) >= 0)[None, :] & ((x * 2 + (s - 2)) < 33)[None, :], other=0.0)
            W_tile = tl.load(W_at + (r * 5 + s), mask=(g1 < 6), other=0.0)
            acc = acc + X_tile * W_tile[:, None]
    Y_at = Y + (n * 1734 + y_x0 * 64) + ((g1 * 289)[:, None] + y_x1[None, :])
    tl.store(Y_at, acc, mask=(g1 < 6)[:, None] & (y_x < 289)[None, :])
