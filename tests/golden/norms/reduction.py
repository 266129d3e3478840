import triton
import triton.language as tl


@triton.jit
def kernel(X, S):
    # axes: b < 4, i < 128, j < 300, i_j < 38400
    # grid: b0 < 1
    # block: b1 < 4 x i_j1 < 64
    # loops: i_j0 < 600
    b1 = tl.arange(0, 4)
    i_j1 = tl.arange(0, 64)
    X_at = X + ((b1 * 38400)[:, None] + i_j1[None, :])
    acc = tl.zeros([4, 64], tl.float32)
    for i_j0 in tl.range(600):
        X_tile = tl.load(X_at + i_j0 * 64)
        acc = acc + X_tile * X_tile
    acc = tl.sum(acc, axis=1)
    S_tile = tl.sqrt(acc)
    S_at = S + b1
    tl.store(S_at, S_tile)
