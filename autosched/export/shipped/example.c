/* Run one workload of this folder on inputs that are all 1, and print where its output begins.
 *
 *     cc -std=c11 example.c -o example -lcuda
 *     ./example [FOLDER] [NAME]          by default this folder's first workload
 */

#include "autosched.h"

#define TRY(call)                                                   \
    do {                                                            \
        CUresult code_ = (call);                                    \
        const char *text_ = NULL;                                   \
        if (code_) {                                                \
            cuGetErrorString(code_, &text_);                        \
            fprintf(stderr, "%s: %s\n", #call, text_ ? text_ : ""); \
            return 1;                                               \
        }                                                           \
    } while (0)

/* Write 1 as an element of a dtype; return its bytes. */
static void one(const char *dtype, unsigned char *to) {
    static const struct {
        const char *dtype;
        uint64_t bits;
        int bytes;
    } known[] = {
        {"float16", 0x3c00, 2},    {"bfloat16", 0x3f80, 2},
        {"float32", 0x3f800000, 4}, {"float64", 0x3ff0000000000000ull, 8},
        {"float8_e4m3", 0x38, 1},  {"int8", 1, 1},
        {"int32", 1, 4},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (!strcmp(dtype, known[i].dtype))
            memcpy(to, &known[i].bits, (size_t)known[i].bytes);
}

/* Return 2 to the power of n. */
static double power(int n) {
    double value = 1.0;
    for (; n > 0; n--)
        value *= 2.0;
    for (; n < 0; n++)
        value /= 2.0;
    return value;
}

/* Return a narrow float of so many bits of exponent and mantissa; infinities come out finite. */
static double narrow(unsigned bits, int exponent_bits, int mantissa_bits) {
    int bias = (1 << (exponent_bits - 1)) - 1;
    int exponent = (int)(bits >> mantissa_bits) & ((1 << exponent_bits) - 1);
    double mantissa = (double)(bits & ((1u << mantissa_bits) - 1)) / power(mantissa_bits);
    double value = exponent ? (1.0 + mantissa) * power(exponent - bias) : mantissa * power(1 - bias);
    return bits >> (exponent_bits + mantissa_bits) & 1 ? -value : value;
}

static double element(const char *dtype, const unsigned char *from) {
    uint16_t half;
    int32_t integer;
    float single;
    double wide;
    memcpy(&half, from, sizeof half);
    if (!strcmp(dtype, "float16"))
        return narrow(half, 5, 10);
    if (!strcmp(dtype, "bfloat16"))
        return narrow(half, 8, 7);
    if (!strcmp(dtype, "float8_e4m3"))
        return narrow(from[0], 4, 3);
    if (!strcmp(dtype, "int8"))
        return (signed char)from[0];
    memcpy(&integer, from, sizeof integer);
    if (!strcmp(dtype, "int32"))
        return integer;
    memcpy(&single, from, sizeof single);
    memcpy(&wide, from, sizeof wide);
    return !strcmp(dtype, "float32") ? (double)single : wide;
}

int main(int count, char **arguments) {
    const char *folder = count > 1 ? arguments[1] : ".";
    const autosched_workload *workload =
        count > 2 ? autosched_find(arguments[2]) : &autosched_workloads[0];
    CUdeviceptr buffers[64];
    CUdevice device;
    CUcontext context;
    autosched_loaded loaded;
    if (!workload) {
        fprintf(stderr, "there is no workload %s\n", arguments[2]);
        return 2;
    }
    TRY(cuInit(0));
    TRY(cuDeviceGet(&device, 0));
    const char *refused = autosched_check_device(device);
    if (refused) {
        fprintf(stderr, "this GPU is refused: %s\n", refused);
        return 1;
    }
    TRY(cuDevicePrimaryCtxRetain(&context, device));
    TRY(cuCtxSetCurrent(context));
    TRY(autosched_load(&loaded, workload, folder));
    for (int i = 0; i < workload->buffer_count; i++) {
        const autosched_buffer *buffer = &workload->buffers[i];
        uint64_t bytes = buffer->bytes + 8; /* so that any element can be read as 8 bytes */
        TRY(cuMemAlloc(&buffers[i], bytes));
        unsigned char *data = (unsigned char *)calloc(1, bytes);
        if (!data)
            return 1;
        for (uint64_t at = 0; buffer->role == AUTOSCHED_INPUT && at < buffer->bytes;
             at += buffer->element_bytes)
            one(buffer->dtype, data + at);
        TRY(cuMemcpyHtoD(buffers[i], data, bytes));
        free(data);
    }
    TRY(autosched_run(&loaded, buffers, NULL));
    TRY(cuCtxSynchronize());
    for (int i = 0; i < workload->buffer_count; i++) {
        const autosched_buffer *buffer = &workload->buffers[i];
        if (buffer->role != AUTOSCHED_OUTPUT)
            continue;
        unsigned char *data = (unsigned char *)malloc(buffer->bytes + 8);
        if (!data)
            return 1;
        TRY(cuMemcpyDtoH(data, buffers[i], buffer->bytes + 8));
        printf("%s: %s begins with", workload->name, buffer->name);
        for (uint64_t at = 0; at < buffer->bytes && at < 4 * buffer->element_bytes;
             at += buffer->element_bytes)
            printf(" %g", element(buffer->dtype, data + at));
        printf("\n");
        free(data);
    }
    for (int i = 0; i < workload->buffer_count; i++)
        TRY(cuMemFree(buffers[i]));
    autosched_unload(&loaded);
    TRY(cuDevicePrimaryCtxRelease(device));
    return 0;
}
