import triton
import triton.language as tl


@triton.jit
def kernel(B_desc, A_desc, C):
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
    acc = acc.to(tl.int32, bitcast=True)
    for k0 in tl.range(4):
        B_tile = B_desc.load([b, k0 * 32, j0 * 64]).reshape(32, 64).T
        A_tile = A_desc.load([b, i0 * 64, k0 * 32]).reshape(64, 32).T
        acc = tl.dot(B_tile + 0.0, A_tile, acc.to(tl.float32, bitcast=True), input_precision="tf32").to(tl.int32, bitcast=True)
    acc = acc.to(tl.float32, bitcast=True)
    C_at = C + (b * 16384 + i0 * 8192 + j0 * 64) + ((i1 * 128)[None, :] + j1[:, None])
    tl.store(C_at, acc)
