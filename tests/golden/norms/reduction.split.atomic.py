import triton
import triton.language as tl


@triton.jit
def kernel_part(X, partial):
    # axes: b < 4, i < 128, j < 300, i_j < 38400, i_j_rest < 9600
    # grid: part < 4, b0 < 1
    # block: b1 < 4 x i_j1 < 64
    # loops: i_j0 < 150
    b1 = tl.arange(0, 4)
    i_j1 = tl.arange(0, 64)
    part = tl.program_id(0)
    X_at = X + (part * 9600) + ((b1 * 38400)[:, None] + i_j1[None, :])
    acc = tl.zeros([4, 64], tl.float32)
    for i_j0 in tl.range(150):
        X_tile = tl.load(X_at + i_j0 * 64)
        acc = acc + X_tile * X_tile
    acc = tl.sum(acc, axis=1)
    partial_at = partial + b1
    tl.atomic_add(partial_at, acc, sem="relaxed")


import triton
import triton.language as tl


@triton.jit
def kernel_join(partial, S):
    # axes: b < 4
    # grid: b0 < 1
    # block: b1 < 4
    b1 = tl.arange(0, 4)
    partial_at = partial + b1
    partial_tile = tl.load(partial_at)
    S_tile = tl.sqrt(partial_tile)
    S_at = S + b1
    tl.store(S_at, S_tile)
