/* A CUDA driver that computes nothing: it checks what it is asked as the real one does, keeps
   memory on the host and writes a log of what was started, as JSON, a line a call.

   Sizes of parameters come from the binary itself (EIATTR_KPARAM_INFO), as they do in the real
   driver: a kernel started with other arguments than it was compiled for shows in its bytes.
   A tensor map holds what it was made of; see `struct map`.

   A process that cannot ask for the log has it written to FAKE_CUDA_LOG at its end, and is another
   GPU by FAKE_CUDA_NAME. */

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef int CUresult;
typedef int CUdevice;
typedef uint64_t CUdeviceptr;

enum { OK = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, NOT_INITIALIZED = 3, INVALID_DEVICE = 101 };
enum { INVALID_IMAGE = 200, INVALID_CONTEXT = 201, INVALID_HANDLE = 400, NOT_FOUND = 500 };

#define MOST_PARAMETERS 128
#define LOG_BYTES (1 << 20)

struct function {
    char name[256];
    int module, parameters, offset[MOST_PARAMETERS], size[MOST_PARAMETERS];
    int dynamic_shared;
};

struct module {
    int number;
    size_t length;
    unsigned char *image;
};

/* What cuTensorMapEncodeTiled leaves in the 128 bytes of a tensor map. */
#pragma pack(push, 1)
struct map {
    uint64_t address, extents[5], strides[4];
    uint32_t box[5];
    uint8_t element_strides[5], type, rank, interleave, swizzle, promotion, fill, unused[17];
};
#pragma pack(pop)
_Static_assert(sizeof(struct map) == 128, "a tensor map has 128 bytes");

static char the_log[LOG_BYTES];
static size_t logged;
static char device_name[128] = "NVIDIA H200";
static int capability[2] = {9, 0}, initialized, modules, contexts[1];
static _Thread_local void *current;

static void say(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    size_t left = LOG_BYTES - logged;
    int wrote = vsnprintf(the_log + logged, left, format, arguments);
    va_end(arguments);
    if (wrote < 0 || (size_t)wrote >= left)
        abort();
    logged += (size_t)wrote;
}

/* For tests: the log so far, an empty log, another device. */
const char *fake_cuda_log(void) { return the_log; }

void fake_cuda_reset(void) {
    the_log[0] = 0;
    logged = 0;
    current = NULL;
}

void fake_cuda_device(const char *name, int major, int minor) {
    snprintf(device_name, sizeof device_name, "%s", name);
    capability[0] = major;
    capability[1] = minor;
}

__attribute__((destructor)) static void write_log(void) {
    const char *path = getenv("FAKE_CUDA_LOG");
    FILE *file = path ? fopen(path, "w") : NULL;
    if (!file)
        return;
    fputs(the_log, file);
    fclose(file);
}

CUresult cuInit(unsigned flags) {
    initialized = 1;
    if (getenv("FAKE_CUDA_NAME"))
        fake_cuda_device(getenv("FAKE_CUDA_NAME"), 9, 0);
    return flags ? INVALID_VALUE : OK;
}

CUresult cuDriverGetVersion(int *version) {
    *version = 13000;
    return OK;
}

CUresult cuDeviceGetCount(int *count) {
    *count = 1;
    return initialized ? OK : NOT_INITIALIZED;
}

CUresult cuDeviceGet(CUdevice *device, int ordinal) {
    *device = ordinal;
    return !initialized ? NOT_INITIALIZED : ordinal ? INVALID_DEVICE : OK;
}

CUresult cuDeviceGetName(char *name, int length, CUdevice device) {
    snprintf(name, (size_t)length, "%s", device_name);
    return device ? INVALID_DEVICE : OK;
}

CUresult cuDeviceGetAttribute(int *value, int attribute, CUdevice device) {
    switch (attribute) {
    case 1: *value = 1024; break;        /* MAX_THREADS_PER_BLOCK */
    case 10: *value = 32; break;         /* WARP_SIZE */
    case 16: *value = 132; break;        /* MULTIPROCESSOR_COUNT */
    case 75: *value = capability[0]; break;
    case 76: *value = capability[1]; break;
    case 81: *value = 233472; break;     /* MAX_SHARED_MEMORY_PER_MULTIPROCESSOR */
    case 97: *value = 232448; break;     /* MAX_SHARED_MEMORY_PER_BLOCK_OPTIN */
    default: return INVALID_VALUE;
    }
    return device ? INVALID_DEVICE : OK;
}

CUresult cuDevicePrimaryCtxRetain(void **context, CUdevice device) {
    *context = contexts;
    return device ? INVALID_DEVICE : OK;
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device) { return device ? INVALID_DEVICE : OK; }

CUresult cuCtxGetCurrent(void **context) {
    *context = current;
    return OK;
}

CUresult cuCtxSetCurrent(void *context) {
    current = context;
    return !context || context == contexts ? OK : INVALID_CONTEXT;
}

CUresult cuCtxSynchronize(void) { return current ? OK : INVALID_CONTEXT; }

CUresult cuStreamSynchronize(void *stream) {
    (void)stream;
    return cuCtxSynchronize();
}

/* ELF64, little endian, as far as it is needed here. */
static uint64_t number(const unsigned char *at, int bytes) {
    uint64_t value = 0;
    memcpy(&value, at, (size_t)bytes);
    return value;
}

static size_t image_length(const unsigned char *image) {
    uint64_t sections = number(image + 0x28, 8), count = number(image + 0x3c, 2);
    return (size_t)(sections + 64 * count);
}

CUresult cuModuleLoadData(void **module, const void *image) {
    if (!current)
        return INVALID_CONTEXT;
    if (memcmp(image, "\177ELF\2\1", 6))
        return INVALID_IMAGE;
    struct module *made = calloc(1, sizeof *made);
    made->number = ++modules;
    made->length = image_length(image);
    made->image = malloc(made->length);
    memcpy(made->image, image, made->length);
    *module = made;
    say("{\"call\": \"load\", \"module\": %d}\n", made->number);
    return OK;
}

CUresult cuModuleUnload(void *module) {
    struct module *held = module;
    say("{\"call\": \"unload\", \"module\": %d}\n", held->number);
    free(held->image);
    free(held);
    return OK;
}

static void read_parameters(struct function *made, const unsigned char *info, uint64_t length) {
    for (uint64_t at = 0; at + 4 <= length;) {
        int format = info[at], attribute = info[at + 1];
        uint64_t value = number(info + at + 2, 2);
        if (format == 4 && attribute == 0x17) { /* EIFMT_SVAL, EIATTR_KPARAM_INFO */
            int ordinal = (int)number(info + at + 8, 2);
            if (ordinal >= MOST_PARAMETERS)
                abort();
            made->offset[ordinal] = (int)number(info + at + 10, 2);
            made->size[ordinal] = (int)(number(info + at + 12, 4) >> 18);
            if (ordinal >= made->parameters)
                made->parameters = ordinal + 1;
        }
        at += 4 + (format == 4 ? value : 0);
    }
}

CUresult cuModuleGetFunction(void **function, void *module, const char *name) {
    struct module *held = module;
    const unsigned char *image = held->image;
    const unsigned char *sections = image + number(image + 0x28, 8);
    uint64_t count = number(image + 0x3c, 2);
    const unsigned char *names = image + number(sections + 64 * number(image + 0x3e, 2) + 24, 8);
    struct function *made = calloc(1, sizeof *made);
    char text[300], info[300];
    int found = 0;
    snprintf(made->name, sizeof made->name, "%s", name);
    snprintf(text, sizeof text, ".text.%s", made->name);
    snprintf(info, sizeof info, ".nv.info.%s", made->name);
    made->module = held->number;
    for (uint64_t i = 0; i < count; i++) {
        const unsigned char *section = sections + 64 * i;
        const char *called = (const char *)names + number(section, 4);
        found |= !strcmp(called, text);
        if (!strcmp(called, info))
            read_parameters(made, image + number(section + 24, 8), number(section + 32, 8));
    }
    if (!found) {
        free(made);
        return NOT_FOUND;
    }
    *function = made;
    return OK;
}

CUresult cuFuncGetAttribute(int *value, int attribute, void *function) {
    (void)function;
    *value = attribute == 0 ? 1024 : 0; /* MAX_THREADS_PER_BLOCK */
    return OK;
}

CUresult cuFuncSetAttribute(void *function, int attribute, int value) {
    if (attribute != 8 || value < 0 || value > 232448) /* MAX_DYNAMIC_SHARED_SIZE_BYTES */
        return INVALID_VALUE;
    ((struct function *)function)->dynamic_shared = value;
    return OK;
}

CUresult cuFuncSetCacheConfig(void *function, int config) {
    (void)function;
    return config < 0 || config > 3 ? INVALID_VALUE : OK;
}

/* The rules of the driver API's page on cuTensorMapEncodeTiled, for types without packing. */
CUresult cuTensorMapEncodeTiled(
    void *map, unsigned type, uint32_t rank, void *address, const uint64_t *extents,
    const uint64_t *strides, const uint32_t *box, const uint32_t *element_strides,
    unsigned interleave, unsigned swizzle, unsigned promotion, unsigned fill) {
    static const unsigned bytes[] = {1, 2, 4, 4, 8, 8, 2, 4, 8, 2, 4, 4, 4};
    static const unsigned widest[] = {0, 32, 64, 128};
    struct map made = {0};
    if ((uintptr_t)map % 64 || (uintptr_t)address % 16 || type > 12 || rank < 1 || rank > 5)
        return INVALID_VALUE;
    if (interleave || swizzle > 3 || promotion > 3 || fill > 1)
        return INVALID_VALUE;
    if (box[0] * bytes[type] % 16 || (swizzle && box[0] * bytes[type] > widest[swizzle]))
        return INVALID_VALUE;
    for (uint32_t i = 0; i < rank; i++) {
        if (extents[i] < 1 || extents[i] > 1ull << 32 || box[i] < 1 || box[i] > 256)
            return INVALID_VALUE;
        if (element_strides[i] < 1 || element_strides[i] > 8)
            return INVALID_VALUE;
        made.extents[i] = extents[i];
        made.box[i] = box[i];
        made.element_strides[i] = (uint8_t)element_strides[i];
        if (i + 1 == rank)
            continue;
        if (strides[i] % 16 || strides[i] >= 1ull << 40)
            return INVALID_VALUE;
        made.strides[i] = strides[i];
    }
    made.address = (uintptr_t)address;
    made.type = (uint8_t)type;
    made.rank = (uint8_t)rank;
    made.swizzle = (uint8_t)swizzle;
    made.promotion = (uint8_t)promotion;
    made.fill = (uint8_t)fill;
    memcpy(map, &made, sizeof made);
    return OK;
}

static CUresult launch(
    struct function *function, const unsigned *grid, const unsigned *block, unsigned shared,
    void *stream, unsigned attributes, void **parameters) {
    if (!current)
        return INVALID_CONTEXT;
    if (!grid[0] || !grid[1] || !grid[2] || grid[0] > 0x7fffffff || grid[1] > 65535 ||
        grid[2] > 65535 || block[0] * block[1] * block[2] > 1024)
        return INVALID_VALUE;
    if (shared > 49152 && shared > (unsigned)function->dynamic_shared)
        return INVALID_VALUE;
    say("{\"call\": \"launch\", \"function\": \"%s\", \"module\": %d", function->name,
        function->module);
    say(", \"grid\": [%u, %u, %u], \"block\": [%u, %u, %u]", grid[0], grid[1], grid[2], block[0],
        block[1], block[2]);
    say(", \"shared_bytes\": %u, \"stream\": %llu, \"attributes\": %u, \"parameters\": [", shared,
        (unsigned long long)(uintptr_t)stream, attributes);
    for (int i = 0; i < function->parameters; i++) {
        const unsigned char *bytes = parameters[i];
        say("%s\"", i ? ", " : "");
        for (int j = 0; j < function->size[i]; j++)
            say("%02x", bytes[j]);
        say("\"");
    }
    say("]}\n");
    return OK;
}

CUresult cuLaunchKernel(
    void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
    unsigned shared, void *stream, void **parameters, void **extra) {
    unsigned grid[] = {gx, gy, gz}, block[] = {bx, by, bz};
    return extra ? INVALID_VALUE : launch(function, grid, block, shared, stream, 0, parameters);
}

struct config {
    unsigned grid[3], block[3], shared;
    void *stream, *attributes;
    unsigned count;
};

CUresult cuLaunchKernelEx(
    const struct config *config, void *function, void **parameters, void **extra) {
    return extra ? INVALID_VALUE
                 : launch(function, config->grid, config->block, config->shared, config->stream,
                          config->count, parameters);
}

CUresult cuMemAlloc_v2(CUdeviceptr *address, size_t length) {
    void *made = NULL;
    if (posix_memalign(&made, 256, length ? length : 1))
        return OUT_OF_MEMORY;
    *address = (uintptr_t)made;
    say("{\"call\": \"allocate\", \"address\": %llu, \"bytes\": %zu}\n",
        (unsigned long long)*address, length);
    return current ? OK : INVALID_CONTEXT;
}

CUresult cuMemFree_v2(CUdeviceptr address) {
    free((void *)(uintptr_t)address);
    return OK;
}

CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t length) {
    memcpy((void *)(uintptr_t)to, from, length);
    return OK;
}

CUresult cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t length) {
    memcpy(to, (const void *)(uintptr_t)from, length);
    return OK;
}

CUresult cuMemsetD8Async(CUdeviceptr address, unsigned char value, size_t length, void *stream) {
    memset((void *)(uintptr_t)address, value, length);
    say("{\"call\": \"clear\", \"address\": %llu, \"bytes\": %zu, \"value\": %d, \"stream\": %llu}\n",
        (unsigned long long)address, length, value, (unsigned long long)(uintptr_t)stream);
    return OK;
}

CUresult cuGetErrorString(CUresult code, const char **text) {
    static const struct { int code; const char *text; } known[] = {
        {OK, "no error"}, {INVALID_VALUE, "invalid argument"}, {OUT_OF_MEMORY, "out of memory"},
        {NOT_INITIALIZED, "initialization error"}, {INVALID_DEVICE, "invalid device ordinal"},
        {INVALID_IMAGE, "device kernel image is invalid"},
        {INVALID_CONTEXT, "invalid device context"}, {INVALID_HANDLE, "invalid resource handle"},
        {NOT_FOUND, "named symbol not found"},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (known[i].code == code) {
            *text = known[i].text;
            return OK;
        }
    *text = NULL;
    return INVALID_VALUE;
}

CUresult cuGetErrorName(CUresult code, const char **text) { return cuGetErrorString(code, text); }
