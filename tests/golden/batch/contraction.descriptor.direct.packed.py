import triton
import triton.language as tl


@triton.jit
def kernel_pack_B(B, B_packed):
    # axes: d1 < 128, d2 < 128
    # grid: d0 < 3, d2o < 2, d1o < 2
    # block: d2i < 64 x d1i < 64
    d2i = tl.arange(0, 64)
    d1i = tl.arange(0, 64)
    program = tl.program_id(0)
    d0 = program // 4
    d2o = program // 2 % 2
    d1o = program % 2
    B_at = B + (d0 * 16384 + d1o * 8192 + d2o * 64) + ((d1i * 128)[None, :] + d2i[:, None])
    B_packed_tile = tl.load(B_at)
    B_packed_at = B_packed + (d0 * 16384 + d2o * 8192 + d1o * 64) + ((d2i * 128)[:, None] + d1i[None, :])
    tl.store(B_packed_at, B_packed_tile)


import triton
import triton.language as tl


@triton.jit
def kernel(A_desc, B_packed_desc, C):
    # axes: i < 128, j < 128, k < 128
    # grid: b < 3, i0 < 2, j0 < 2
    # block: i1 < 64 x j1 < 64 x k1 < 32
    # loops: k0 < 4
    i1 = tl.arange(0, 64)
    j1 = tl.arange(0, 64)
    program = tl.program_id(0)
    b = program // 4
    i0 = (program % 4) % 2
    j0 = (program % 4) // 2
    acc = tl.zeros([64, 64], tl.float32)
    for k0 in tl.range(4):
        A_tile = A_desc.load([b, i0 * 64, k0 * 32]).reshape(64, 32)
        B_packed_tile = B_packed_desc.load([b, j0 * 64, k0 * 32]).reshape(64, 32).T
        acc = tl.dot(A_tile, B_packed_tile, acc, input_precision="tf32")
    C_at = C + (b * 16384 + i0 * 8192 + j0 * 64) + ((i1 * 128)[:, None] + j1[None, :])
    tl.store(C_at, acc)
