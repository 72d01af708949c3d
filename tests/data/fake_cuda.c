/* Stands for libcuda.so.1, whose functions return set values.
 *
 * -DINIT=<CUresult>       what cuInit is answered with
 * -DDEVICES=<n>           how many devices there are
 * -DREFUSE=<attribute>    the attribute that is answered with CUDA_ERROR_INVALID_VALUE
 * -DNO_CLOCK              the memory clock is 0, as on GPUs that do not tell it
 * -DOLD                   cuDeviceGetUuid is missing
 */
#include <stddef.h>
#include <string.h>

#ifndef INIT
#define INIT 0
#endif
#ifndef DEVICES
#define DEVICES 1
#endif
#ifndef REFUSE
#define REFUSE -1
#endif

enum { INVALID_VALUE = 1, NOT_INITIALIZED = 3, NO_DEVICE = 100, INVALID_DEVICE = 101, HANDLE = 40 };

static int started;

#define OF_DEVICE(given)                                  \
    if (!started)                                         \
        return NOT_INITIALIZED;                           \
    if ((given) < HANDLE || (given) >= HANDLE + DEVICES)  \
        return INVALID_DEVICE;

int cuInit(unsigned flags)
{
    started = INIT == 0 && flags == 0;
    return INIT;
}

int cuGetErrorString(int code, const char **text)
{
    if (code != NO_DEVICE)
        return INVALID_VALUE;
    *text = "no CUDA-capable device is detected";
    return 0;
}

int cuDriverGetVersion(int *version)
{
    *version = 13020;
    return 0;
}

int cuDeviceGetCount(int *count)
{
    *count = DEVICES;
    return started ? 0 : NOT_INITIALIZED;
}

/* Handles are not the ordinals, which a caller might mix up. */
int cuDeviceGet(int *device, int ordinal)
{
    *device = HANDLE + ordinal;
    return started ? 0 : NOT_INITIALIZED;
}

int cuDeviceGetName(char *name, int length, int device)
{
    OF_DEVICE(device)
    strncpy(name, device == HANDLE ? "NVIDIA H100 80GB HBM3" : "NVIDIA Other", (size_t)length);
    return 0;
}

int cuDeviceTotalMem_v2(size_t *bytes, int device)
{
    OF_DEVICE(device)
    *bytes = 85029158912u;
    return 0;
}

#ifndef OLD
int cuDeviceGetUuid(unsigned char *uuid, int device)
{
    OF_DEVICE(device)
    for (int i = 0; i < 16; ++i)
        uuid[i] = (unsigned char)(0x11 * i);
    uuid[15] = (unsigned char)(0xf0 + device - HANDLE);
    return 0;
}
#endif

/* By the numbers of cuda.h, each with a value that no other has. */
int cuDeviceGetAttribute(int *value, int attribute, int device)
{
    OF_DEVICE(device)
    if (attribute == REFUSE)
        return INVALID_VALUE;
    switch (attribute) {
    case 1: *value = 1024; return 0;
    case 8: *value = 49152; return 0;
    case 10: *value = 32; return 0;
    case 13: *value = 1980000; return 0;
    case 16: *value = 132; return 0;
#ifdef NO_CLOCK
    case 36: *value = 0; return 0;
#else
    case 36: *value = 2619000; return 0;
#endif
    case 37: *value = 5120; return 0;
    case 38: *value = 52428800; return 0;
    case 39: *value = 2048; return 0;
    case 75: *value = 9; return 0;
    case 76: *value = 0; return 0;
    case 81: *value = 233472; return 0;
    case 82: *value = 65536; return 0;
    case 97: *value = 232448; return 0;
    case 106: *value = 33; return 0;
    default: return INVALID_VALUE;
    }
}
