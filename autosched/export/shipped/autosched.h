/* Kernels for @GPUS@: tables of what they are, and functions that load and start them.
 *
 * Written by autosched @VERSION@ export; do not edit. Needs CUDA's driver API (link with -lcuda) and
 * C11 or C++11. Nothing here is safe against a folder from somebody that you do not trust: a kernel runs
 * as it was compiled.
 *
 *     cuInit(0), a device, its primary context made current; then
 *     if (autosched_check_device(device)) ...          says why not this GPU
 *     autosched_find(name), autosched_load             once
 *     autosched_run                                    on a stream, as often as wanted
 *
 * Buffers are device memory of the caller's, workspaces too, one for each entry of the workload's
 * `buffers`, in that order, of that many bytes and aligned as it says. A workspace may be shared
 * by calls that follow one another on one stream, and by no others. */

#ifndef AUTOSCHED_H
#define AUTOSCHED_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if !defined(AUTOSCHED_NO_CUDA_H) && defined(__has_include)
#if __has_include(<cuda.h>)
#include <cuda.h>
#define AUTOSCHED_HAS_CUDA_H
#endif
#endif

#ifndef AUTOSCHED_HAS_CUDA_H
/* What is used here of cuda.h, as the driver's library has it on 64-bit machines. */
typedef int CUresult;
typedef int CUdevice;
typedef int CUdevice_attribute;
typedef int CUfunction_attribute;
typedef int CUfunc_cache;
typedef int CUtensorMapDataType;
typedef int CUtensorMapInterleave;
typedef int CUtensorMapSwizzle;
typedef int CUtensorMapL2promotion;
typedef int CUtensorMapFloatOOBfill;
typedef unsigned long long CUdeviceptr;
typedef struct CUctx_st *CUcontext;
typedef struct CUmod_st *CUmodule;
typedef struct CUfunc_st *CUfunction;
typedef struct CUstream_st *CUstream;
#ifdef __cplusplus
extern "C" {
typedef struct CUtensorMap_st {
    alignas(64) uint64_t opaque[16];
} CUtensorMap;
#else
typedef struct CUtensorMap_st {
    _Alignas(64) uint64_t opaque[16];
} CUtensorMap;
#endif
#define CUDA_SUCCESS 0
#define CUDA_ERROR_INVALID_VALUE 1
#define CUDA_ERROR_OUT_OF_MEMORY 2
#define CUDA_ERROR_INVALID_IMAGE 200
#define CUDA_ERROR_FILE_NOT_FOUND 301
#define cuMemAlloc cuMemAlloc_v2
#define cuMemFree cuMemFree_v2
#define cuMemcpyHtoD cuMemcpyHtoD_v2
#define cuMemcpyDtoH cuMemcpyDtoH_v2
#define cuDevicePrimaryCtxRelease cuDevicePrimaryCtxRelease_v2
CUresult cuInit(unsigned);
CUresult cuDeviceGet(CUdevice *, int);
CUresult cuDeviceGetName(char *, int, CUdevice);
CUresult cuDeviceGetAttribute(int *, CUdevice_attribute, CUdevice);
CUresult cuDevicePrimaryCtxRetain(CUcontext *, CUdevice);
CUresult cuDevicePrimaryCtxRelease(CUdevice);
CUresult cuCtxSetCurrent(CUcontext);
CUresult cuCtxSynchronize(void);
CUresult cuModuleLoadData(CUmodule *, const void *);
CUresult cuModuleUnload(CUmodule);
CUresult cuModuleGetFunction(CUfunction *, CUmodule, const char *);
CUresult cuFuncSetAttribute(CUfunction, CUfunction_attribute, int);
CUresult cuFuncSetCacheConfig(CUfunction, CUfunc_cache);
CUresult cuMemAlloc(CUdeviceptr *, size_t);
CUresult cuMemFree(CUdeviceptr);
CUresult cuMemcpyHtoD(CUdeviceptr, const void *, size_t);
CUresult cuMemcpyDtoH(void *, CUdeviceptr, size_t);
CUresult cuMemsetD8Async(CUdeviceptr, unsigned char, size_t, CUstream);
CUresult cuLaunchKernel(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                        unsigned, CUstream, void **, void **);
CUresult cuTensorMapEncodeTiled(CUtensorMap *, CUtensorMapDataType, uint32_t, void *,
                                const uint64_t *, const uint64_t *, const uint32_t *,
                                const uint32_t *, CUtensorMapInterleave, CUtensorMapSwizzle,
                                CUtensorMapL2promotion, CUtensorMapFloatOOBfill);
CUresult cuGetErrorString(CUresult, const char **);
#ifdef __cplusplus
}
#endif
#endif

enum { AUTOSCHED_INPUT, AUTOSCHED_OUTPUT, AUTOSCHED_WORKSPACE };
enum {
    AUTOSCHED_MOST_RANK = 5,
    AUTOSCHED_MOST_ARGUMENTS = @MOST_ARGUMENTS@,
    AUTOSCHED_MOST_PARAMETERS = @MOST_PARAMETERS@,
    AUTOSCHED_MOST_KERNELS = @MOST_KERNELS@
};

/* A tensor. What is `zeroed` is cleared before every run; what is `kept_zero` must be zero before
 * the first, and every run leaves zeros there. */
typedef struct {
    const char *name, *dtype;
    int role;
    uint64_t bytes; /* from its first element to its last */
    unsigned element_bytes, alignment_bytes;
    int zeroed, kept_zero;
} autosched_buffer;

/* An argument of a kernel: the address of a buffer, or a descriptor of it where `rank` is not 0.
 * Dimensions are slowest first; strides are in elements. */
typedef struct {
    int buffer, rank, element_type, element_bytes, swizzle;
    int32_t shape[5];
    int64_t strides[5];
    uint32_t block[5];
} autosched_argument;

/* A function of a binary, and how it is started. One that prepares reads constant inputs alone. */
typedef struct {
    const char *file, *function;
    uint64_t file_bytes, file_hash; /* 64-bit FNV-1a */
    unsigned grid[3], threads, shared_bytes;
    int prepares, argument_count;
    const autosched_argument *arguments;
} autosched_kernel;

typedef struct {
    const char *name, *key;
    int buffer_count;
    const autosched_buffer *buffers;
    int kernel_count;
    const autosched_kernel *kernels;
} autosched_workload;

/* A workload in the context that was current when it was loaded. */
typedef struct {
    const autosched_workload *workload;
    CUmodule modules[AUTOSCHED_MOST_KERNELS];
    CUfunction functions[AUTOSCHED_MOST_KERNELS];
} autosched_loaded;

@TABLES@

static const autosched_workload autosched_workloads[] = {
@WORKLOADS@
};
enum { AUTOSCHED_WORKLOADS = sizeof autosched_workloads / sizeof *autosched_workloads };

/* Return why a device is not one that the folder was built for, or NULL. */
static inline const char *autosched_check_device(CUdevice device) {
    static const char *const gpus[] = {@GPUS@};
    char name[256] = "";
    int major = 0, minor = 0;
    if (cuDeviceGetName(name, sizeof name, device) ||
        cuDeviceGetAttribute(&major, (CUdevice_attribute)75, device) ||
        cuDeviceGetAttribute(&minor, (CUdevice_attribute)76, device))
        return "there is no such device";
    if (major != @MAJOR@ || minor != @MINOR@)
        return "the kernels were built for compute capability @MAJOR@.@MINOR@";
    for (int i = 0; i < @GPU_COUNT@; i++)
        if (!strcmp(name, gpus[i]))
            return NULL;
    return "the kernels were built for another GPU model";
}

/* Return the workload of a name or a key, or NULL. */
static inline const autosched_workload *autosched_find(const char *name) {
    for (int i = 0; i < AUTOSCHED_WORKLOADS; i++)
        if (!strcmp(name, autosched_workloads[i].name) || !strcmp(name, autosched_workloads[i].key))
            return &autosched_workloads[i];
    return NULL;
}

static inline CUresult autosched_load_kernel(const autosched_kernel *kernel, const char *folder,
                                             CUmodule *module, CUfunction *function) {
    char path[4096];
    int length = snprintf(path, sizeof path, "%s/%s", folder, kernel->file);
    FILE *file = length > 0 && length < (int)sizeof path ? fopen(path, "rb") : NULL;
    if (!file)
        return (CUresult)CUDA_ERROR_FILE_NOT_FOUND;
    unsigned char *image = (unsigned char *)malloc(kernel->file_bytes + 1);
    size_t held = image ? fread(image, 1, kernel->file_bytes + 1, file) : 0;
    fclose(file);
    uint64_t hash = 0xcbf29ce484222325ull;
    for (size_t i = 0; i < held; i++)
        hash = (hash ^ image[i]) * 0x100000001b3ull;
    CUresult code = (CUresult)CUDA_ERROR_INVALID_IMAGE;
    if (!image)
        code = (CUresult)CUDA_ERROR_OUT_OF_MEMORY;
    else if (held == kernel->file_bytes && hash == kernel->file_hash)
        code = cuModuleLoadData(module, image);
    free(image);
    if (code)
        return code;
    code = cuModuleGetFunction(function, *module, kernel->function);
    if (!code && kernel->shared_bytes > 49152) {
        code = cuFuncSetCacheConfig(*function, (CUfunc_cache)1); /* prefer shared memory */
        if (!code)                                               /* the most dynamic shared */
            code = cuFuncSetAttribute(*function, (CUfunction_attribute)8,
                                      (int)kernel->shared_bytes);
    }
    return code;
}

static inline void autosched_unload(autosched_loaded *loaded) {
    for (int i = 0; i < loaded->workload->kernel_count; i++)
        if (loaded->modules[i])
            cuModuleUnload(loaded->modules[i]);
    memset(loaded->modules, 0, sizeof loaded->modules);
}

/* Load a workload's kernels from a folder into the current context. A damaged file is
 * CUDA_ERROR_INVALID_IMAGE, a missing one CUDA_ERROR_FILE_NOT_FOUND. */
static inline CUresult autosched_load(autosched_loaded *loaded, const autosched_workload *workload,
                                      const char *folder) {
    memset(loaded, 0, sizeof *loaded);
    loaded->workload = workload;
    for (int i = 0; i < workload->kernel_count; i++) {
        CUresult code = autosched_load_kernel(&workload->kernels[i], folder, &loaded->modules[i],
                                              &loaded->functions[i]);
        if (code) {
            autosched_unload(loaded);
            return code;
        }
    }
    return (CUresult)CUDA_SUCCESS;
}

static inline CUresult autosched_encode(CUtensorMap *map, const autosched_argument *argument,
                                        CUdeviceptr address) {
    uint64_t extents[AUTOSCHED_MOST_RANK], pitches[AUTOSCHED_MOST_RANK];
    uint32_t block[AUTOSCHED_MOST_RANK], ones[AUTOSCHED_MOST_RANK];
    int rank = argument->rank;
    for (int i = 0; i < rank; i++) { /* CUDA wants the fastest dimension first */
        extents[i] = (uint64_t)argument->shape[rank - 1 - i];
        block[i] = argument->block[rank - 1 - i];
        ones[i] = 1;
        pitches[i] = 0;
        if (i + 1 < rank)
            pitches[i] = (uint64_t)argument->strides[rank - 2 - i] * (unsigned)argument->element_bytes;
    }
    /* Not interleaved, promoted to 128 bytes in L2, zeros out of range. */
    return cuTensorMapEncodeTiled(
        map, (CUtensorMapDataType)argument->element_type, (uint32_t)rank,
        (void *)(uintptr_t)address, extents, pitches, block, ones, (CUtensorMapInterleave)0,
        (CUtensorMapSwizzle)argument->swizzle, (CUtensorMapL2promotion)2,
        (CUtensorMapFloatOOBfill)0);
}

/* Start one kernel. A parameter is an address, or a tensor map, its extents and its strides; two
 * null addresses end them. */
static inline CUresult autosched_start(CUfunction function, const autosched_kernel *kernel,
                                       const CUdeviceptr *buffers, CUstream stream) {
    CUtensorMap maps[AUTOSCHED_MOST_ARGUMENTS];
    CUdeviceptr addresses[AUTOSCHED_MOST_ARGUMENTS], none = 0;
    void *parameters[AUTOSCHED_MOST_PARAMETERS];
    int count = 0;
    for (int i = 0; i < kernel->argument_count; i++) {
        const autosched_argument *argument = &kernel->arguments[i];
        if (!argument->rank) {
            addresses[i] = buffers[argument->buffer];
            parameters[count++] = &addresses[i];
            continue;
        }
        CUresult code = autosched_encode(&maps[i], argument, buffers[argument->buffer]);
        if (code)
            return code;
        parameters[count++] = &maps[i];
        for (int d = 0; d < argument->rank; d++)
            parameters[count++] = (void *)&argument->shape[d];
        for (int d = 0; d < argument->rank; d++)
            parameters[count++] = (void *)&argument->strides[d];
    }
    parameters[count++] = &none;
    parameters[count++] = &none;
    if (!kernel->grid[0] || !kernel->grid[1] || !kernel->grid[2])
        return (CUresult)CUDA_SUCCESS;
    return cuLaunchKernel(function, kernel->grid[0], kernel->grid[1], kernel->grid[2],
                          kernel->threads, 1, 1, kernel->shared_bytes, stream, parameters, NULL);
}

static inline CUresult autosched_start_all(const autosched_loaded *loaded,
                                           const CUdeviceptr *buffers, CUstream stream,
                                           int preparations, int rest) {
    const autosched_workload *workload = loaded->workload;
    for (int i = 0; i < workload->buffer_count; i++) {
        const autosched_buffer *buffer = &workload->buffers[i];
        if (buffers[i] % buffer->alignment_bytes)
            return (CUresult)CUDA_ERROR_INVALID_VALUE;
        if (rest && buffer->zeroed) {
            CUresult code = cuMemsetD8Async(buffers[i], 0, buffer->bytes, stream);
            if (code)
                return code;
        }
    }
    for (int i = 0; i < workload->kernel_count; i++) {
        const autosched_kernel *kernel = &workload->kernels[i];
        if (kernel->prepares ? !preparations : !rest)
            continue;
        CUresult code = autosched_start(loaded->functions[i], kernel, buffers, stream);
        if (code)
            return code;
    }
    return (CUresult)CUDA_SUCCESS;
}

/* Run a workload on a stream, from its buffers' addresses. */
static inline CUresult autosched_run(const autosched_loaded *loaded, const CUdeviceptr *buffers,
                                     CUstream stream) {
    return autosched_start_all(loaded, buffers, stream, 1, 1);
}

/* Or in two parts: what reads constant inputs alone, once for their values; then the rest. */
static inline CUresult autosched_prepare(const autosched_loaded *loaded, const CUdeviceptr *buffers,
                                         CUstream stream) {
    return autosched_start_all(loaded, buffers, stream, 1, 0);
}

static inline CUresult autosched_repeat(const autosched_loaded *loaded, const CUdeviceptr *buffers,
                                        CUstream stream) {
    return autosched_start_all(loaded, buffers, stream, 0, 1);
}

#endif
