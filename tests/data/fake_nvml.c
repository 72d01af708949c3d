/* Stands for libnvidia-ml.so.1, whose functions return set values.
 *
 * -DREFUSE=<nvmlReturn_t>  what every figure of the device is answered with
 * -DINIT=<nvmlReturn_t>    what nvmlInit_v2 is answered with
 * -DOLD                    the functions of an older driver alone
 * -DBARE                   no more than what opening needs
 * -DMARKED                 every number is NVML's mark of no value
 * -DPROCESSES=<n>          that many foreign processes, 9000 and up, after the caller's own
 * -DHIDE_OWN               the caller's own process is not among them
 * -DMODE=<n>               nvmlGpuVirtualizationMode_t
 */
#include <string.h>
#include <unistd.h>

#ifndef REFUSE
#define REFUSE 0
#endif
#ifndef INIT
#define INIT 0
#endif
#ifndef PROCESSES
#define PROCESSES 0
#endif
#ifndef MODE
#define MODE 0
#endif
#ifdef MARKED
#define VALUE(x) (-1)
#else
#define VALUE(x) (x)
#endif

enum { INVALID_ARGUMENT = 2, NOT_FOUND = 6, INSUFFICIENT_SIZE = 7, ARGUMENT_VERSION_MISMATCH = 25 };

typedef unsigned int u32;
typedef unsigned long long u64;
typedef struct device *device_t;
typedef struct { u32 version, sensor; int temperature; } temperature_v1_t;
typedef struct { u32 version; u64 total, reserved, free, used; } memory_v2_t;
typedef struct { u32 gpu, memory; } utilization_t;
typedef struct { u32 pid; u64 used; u32 gpu_instance, compute_instance; } process_v2_t;

static int started;
static device_t const device = (device_t)0x7fedcba987654321;

int fake_started(void) { return started; }

#define VERSION(type, number) ((u32)(sizeof(type) | (number) << 24))
#define OF_DEVICE(given)                       \
    if (!started || (given) != device)         \
        return INVALID_ARGUMENT;               \
    if (REFUSE)                                \
        return REFUSE;

int nvmlInit_v2(void)
{
    started += INIT == 0;
    return INIT;
}

int nvmlShutdown(void)
{
    started--;
    return 0;
}

int nvmlDeviceGetHandleByUUID(const char *uuid, device_t *found)
{
    if (strcmp(uuid, "GPU-01234567-89ab-cdef-0123-456789abcdef"))
        return NOT_FOUND;
    *found = device;
    return 0;
}

#ifndef BARE

static int text(char *to, u32 room, const char *from)
{
    if (room < strlen(from) + 1)
        return INSUFFICIENT_SIZE;
    strcpy(to, from);
    return 0;
}

int nvmlDeviceGetName(device_t of, char *name, u32 room)
{
    OF_DEVICE(of);
    return text(name, room, "NVIDIA H200");
}

int nvmlSystemGetDriverVersion(char *version, u32 room) { return text(version, room, "580.65.06"); }

int nvmlSystemGetCudaDriverVersion_v2(int *version)
{
    *version = 12080;
    return 0;
}

int nvmlDeviceGetClockInfo(device_t of, u32 domain, u32 *mhz)
{
    OF_DEVICE(of);
    if (domain != 1 && domain != 2)
        return INVALID_ARGUMENT;
    *mhz = VALUE(domain == 1 ? 1755 : 3201);
    return 0;
}

int nvmlDeviceGetMaxClockInfo(device_t of, u32 domain, u32 *mhz)
{
    OF_DEVICE(of);
    if (domain != 1)
        return INVALID_ARGUMENT;
    *mhz = VALUE(1980);
    return 0;
}

int nvmlDeviceGetPowerUsage(device_t of, u32 *mw)
{
    OF_DEVICE(of);
    *mw = VALUE(312345);
    return 0;
}

int nvmlDeviceGetEnforcedPowerLimit(device_t of, u32 *mw)
{
    OF_DEVICE(of);
    *mw = VALUE(700000);
    return 0;
}

int nvmlDeviceGetTotalEnergyConsumption(device_t of, u64 *mj)
{
    OF_DEVICE(of);
    *mj = VALUE(5000000000123ULL);
    return 0;
}

int nvmlDeviceGetUtilizationRates(device_t of, utilization_t *rates)
{
    OF_DEVICE(of);
    rates->gpu = VALUE(97);
    rates->memory = VALUE(41);
    return 0;
}

int nvmlDeviceGetVirtualizationMode(device_t of, u32 *mode)
{
    OF_DEVICE(of);
    *mode = MODE;
    return 0;
}

#ifdef OLD

int nvmlDeviceGetTemperature(device_t of, u32 sensor, u32 *celsius)
{
    OF_DEVICE(of);
    *celsius = sensor == 0 ? 51 : 99;
    return 0;
}

int nvmlDeviceGetCurrentClocksThrottleReasons(device_t of, u64 *bits)
{
    OF_DEVICE(of);
    *bits = 0x1;
    return 0;
}

#else

int nvmlDeviceGetTemperatureV(device_t of, temperature_v1_t *reading)
{
    OF_DEVICE(of);
    if (reading->version != VERSION(temperature_v1_t, 1))
        return ARGUMENT_VERSION_MISMATCH;
    reading->temperature = reading->sensor == 0 ? 63 : 99;
    return 0;
}

int nvmlDeviceGetCurrentClocksEventReasons(device_t of, u64 *bits)
{
    OF_DEVICE(of);
    *bits = VALUE(0x1 | 0x4 | 0x40 | 0x8000000000ULL);
    return 0;
}

int nvmlDeviceGetMemoryInfo_v2(device_t of, memory_v2_t *memory)
{
    OF_DEVICE(of);
    if (memory->version != VERSION(memory_v2_t, 2))
        return ARGUMENT_VERSION_MISMATCH;
    memory->total = 150754820096ULL;
    memory->reserved = 614000000ULL;
    memory->used = 9000000001ULL;
    memory->free = memory->total - memory->used - memory->reserved;
    return 0;
}

int nvmlDeviceGetComputeRunningProcesses_v3(device_t of, u32 *count, process_v2_t *found)
{
    OF_DEVICE(of);
    u32 room = *count, number = 0;
#ifndef HIDE_OWN
    if (number < room)
        found[number] = (process_v2_t){.pid = getpid(), .used = 1 << 20, .gpu_instance = -1, .compute_instance = -1};
    number++;
#endif
    for (u32 i = 0; i < PROCESSES; i++, number++)
        if (number < room)
            found[number] = (process_v2_t){.pid = 9000 + i, .used = 1 << 30, .gpu_instance = -1, .compute_instance = -1};
    *count = number;
    return number > room ? INSUFFICIENT_SIZE : 0;
}

#endif
#endif
