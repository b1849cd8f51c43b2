/* A stand-in for libnvidia-ml.so.1, told by FAKE_NVML_LIBRARY what to answer; its layouts and numbers are nvml.h's.

   The variable has the description that pynvml.py has as JSON, one value a line: `0.rows=4` is how many numbers the
   first GPU's rows are, `0.rows.2=1` the third of them. What each means is said there. OLD leaves out what a driver
   before branch 535 has not. All Xids are the first GPU's. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SUCCESS, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, INSUFFICIENT_SIZE = 7, TIMEOUT = 10 };
typedef int code;
typedef unsigned int number;
typedef unsigned long long large;

/* A GPU, or a slice of it, which counts from 1; and how often it was looked at, and asked for its processes. */
struct gpu { int at, slice, looks, lists; };
struct memory { large total, free, used; };
struct process { number pid; large used; number gpu_instance, compute_instance; };
struct banks { number max, high, partial, low, none; };
union value { double real; number small; large big; };
struct field { number id, scope; long long timestamp, latency; number type; code result; union value value; };
struct event { struct gpu *gpu; large type, data; number gpu_instance, compute_instance; };

static struct gpu gpus[16], slices[16][8];
static int told_xids;

/* What follows `what=`, or NULL. */
static const char *find(const char *what)
{
    size_t length = strlen(what);
    for (const char *line = getenv("FAKE_NVML_LIBRARY"); line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (!strncmp(line, what, length) && line[length] == '=')
            return line + length + 1;
    }
    return NULL;
}

static const char *text_of(const struct gpu *gpu, const char *what)
{
    char name[128];
    snprintf(name, sizeof name, "%d.after.%s", gpu->at, what);
    const char *changed = gpu->looks > 1 ? find(name) : NULL;
    snprintf(name, sizeof name, "%d.%s", gpu->at, what);
    return changed ? changed : find(name);
}

static large of(const struct gpu *gpu, const char *what)
{
    const char *found = text_of(gpu, what);
    return found ? strtoull(found, NULL, 10) : 0;
}

static large nth(const struct gpu *gpu, const char *what, int at)
{
    char name[64];
    snprintf(name, sizeof name, "%s.%d", what, at);
    return of(gpu, name);
}

static code write_text(const char *from, char *to, number size)
{
    size_t length = from ? strcspn(from, "\n") : 0;
    if (length >= size)
        return INSUFFICIENT_SIZE;
    memcpy(to, from ? from : "", length);
    to[length] = 0;
    return SUCCESS;
}

/* The code that a function refuses a GPU with. */
static code refusal(const struct gpu *gpu, const char *function)
{
    char name[128];
    snprintf(name, sizeof name, "refuse.%s", function);
    return (code)of(gpu, name);
}

#define REFUSED(gpu, function) if (refusal(gpu, function)) return refusal(gpu, function)
#define GETTER(function, type, what, ...) /* and what it takes beside the GPU */ \
    code function(struct gpu *gpu __VA_OPT__(,) __VA_ARGS__, type *told) \
    { REFUSED(gpu, #function); *told = what; return SUCCESS; }

const char *nvmlErrorString(code value)
{
    switch (value) {
    case NOT_SUPPORTED: return "Not Supported";
    case 9: return "Driver Not Loaded";
    case TIMEOUT: return "Timeout";
    case 15: return "GPU is lost";
    case 18: return "Driver/library version mismatch";
    case 999: return "Unknown Error";
    default: return "Another Error";
    }
}

/* nvidia-ml-py calls the first, our binding the second. */
code nvmlInitWithFlags(number flags)
{
    if (find("hang"))
        sleep(3600);
    return find("start") ? atoi(find("start")) : SUCCESS;
}

code nvmlInit_v2(void) { return nvmlInitWithFlags(0); }
code nvmlSystemGetDriverVersion(char *told, number size) { return write_text("580.159.03", told, size); }
code nvmlDeviceGetCount_v2(number *told) { *told = atoi(find("gpus")); return SUCCESS; }

code nvmlDeviceGetHandleByIndex_v2(number index, struct gpu **gpu)
{
    if (index >= (number)atoi(find("gpus")))
        return INVALID_ARGUMENT;
    gpus[index].at = index;
    *gpu = &gpus[index];
    return refusal(*gpu, "nvmlDeviceGetHandleByIndex");
}

code nvmlDeviceGetName(struct gpu *gpu, char *to, number size) { return write_text(text_of(gpu, "name"), to, size); }

code nvmlDeviceGetUUID(struct gpu *gpu, char *told, number size)
{
    char name[64];
    REFUSED(gpu, "nvmlDeviceGetUUID");
    snprintf(name, sizeof name, "slices.%d", gpu->slice - 1);
    return write_text(text_of(gpu, gpu->slice ? name : "uuid"), told, size);
}

code nvmlDeviceGetMigMode(struct gpu *gpu, number *current, number *pending)
{
    gpu->looks++;
    REFUSED(gpu, "nvmlDeviceGetMigMode");
    *current = nth(gpu, "mig", 0);
    *pending = nth(gpu, "mig", 1);
    return SUCCESS;
}

code nvmlDeviceGetMigDeviceHandleByIndex(struct gpu *gpu, number index, struct gpu **slice)
{
    if (index >= of(gpu, "slices"))
        return NOT_FOUND;
    *slice = &slices[gpu->at][index];
    **slice = (struct gpu){gpu->at, index + 1, 0, 0};
    return SUCCESS;
}

code nvmlDeviceGetMemoryErrorCounter(struct gpu *gpu, number kind, number counter, number part, large *told)
{
    REFUSED(gpu, "nvmlDeviceGetMemoryErrorCounter");
    if (part != 2) /* NVML_MEMORY_LOCATION_DEVICE_MEMORY */
        return INVALID_ARGUMENT;
    *told = of(gpu, kind ? "uncorrected" : "corrected");
    return of(gpu, "ecc") ? SUCCESS : NOT_SUPPORTED;
}

code nvmlDeviceGetRemappedRows(struct gpu *gpu, number *corrected, number *uncorrected, number *pending, number *failed)
{
    REFUSED(gpu, "nvmlDeviceGetRemappedRows");
    *corrected = nth(gpu, "rows", 0);
    *uncorrected = nth(gpu, "rows", 1);
    *pending = nth(gpu, "rows", 2);
    *failed = nth(gpu, "rows", 3);
    return SUCCESS;
}

code nvmlDeviceGetRetiredPages(struct gpu *gpu, number cause, number *count, large *addresses)
{
    number room = *count;
    REFUSED(gpu, "nvmlDeviceGetRetiredPages");
    *count = cause ? of(gpu, "pages") : 0;
    if (*count > room)
        return INSUFFICIENT_SIZE;
    for (number at = 0; at < *count; at++)
        addresses[at] = 0x1000ull * at;
    return SUCCESS;
}

/* Each time it is asked with room it tells the next of its lists, and the last one for ever. */
code nvmlDeviceGetComputeRunningProcesses_v3(struct gpu *gpu, number *count, struct process *told)
{
    char list[32];
    number room = *count, lists = of(gpu, "processes");
    REFUSED(gpu, "nvmlDeviceGetComputeRunningProcesses");
    snprintf(list, sizeof list, "processes.%d", gpu->lists);
    *count = of(gpu, list);
    if (*count > room)
        return INSUFFICIENT_SIZE;
    for (number at = 0; at < *count; at++)
        told[at] = (struct process){nth(gpu, list, at), 1000000000, -1, -1};
    gpu->lists += told && gpu->lists + 1 < (int)lists;
    return SUCCESS;
}

code nvmlDeviceGetFieldValues(struct gpu *gpu, int count, struct field *values)
{
    REFUSED(gpu, "nvmlDeviceGetFieldValues");
    for (int at = 0; at < count; at++) {
        values[at].result = values[at].id == 230 ? (code)of(gpu, "field") : NOT_SUPPORTED; /* the recovery action */
        values[at].type = 1;
        values[at].value.small = of(gpu, "recovery");
    }
    return SUCCESS;
}

code nvmlDeviceGetNvLinkState(struct gpu *gpu, number link, number *told)
{
    *told = nth(gpu, "links", link);
    return link < of(gpu, "links") ? SUCCESS : NOT_SUPPORTED;
}

code nvmlEventSetCreate(int **events) { *events = &told_xids; return SUCCESS; }

code nvmlDeviceRegisterEvents(struct gpu *gpu, large kinds, int *events)
{
    return kinds == 8 && events == &told_xids ? SUCCESS : INVALID_ARGUMENT;
}

code nvmlEventSetWait_v2(int *events, struct event *told, number timeout_ms)
{
    char name[32];
    snprintf(name, sizeof name, "xids.%d.code", *events);
    if (!find(name))
        return TIMEOUT;
    *told = (struct event){&gpus[0], 8, strtoull(find(name), NULL, 10), -1, -1};
    ++*events;
    return SUCCESS;
}

#define MEMORY of(gpu, "total"), of(gpu, "total") - of(gpu, "used"), of(gpu, "used")
GETTER(nvmlDeviceGetMemoryInfo, struct memory, ((struct memory){MEMORY}))
GETTER(nvmlDeviceGetRowRemapperHistogram, struct banks, ((struct banks){640, 0, 0, of(gpu, "low"), of(gpu, "none")}))
GETTER(nvmlDeviceGetPersistenceMode, number, of(gpu, "persistence"))
GETTER(nvmlDeviceGetMaxMigDeviceCount, number, 7)
GETTER(nvmlDeviceGetRetiredPagesPendingStatus, number, of(gpu, "pending"))
GETTER(nvmlDeviceGetMaxPcieLinkGeneration, number, nth(gpu, "most", 0))
GETTER(nvmlDeviceGetMaxPcieLinkWidth, number, nth(gpu, "most", 1))
GETTER(nvmlDeviceGetCurrPcieLinkGeneration, number, of(gpu, "generation"))
GETTER(nvmlDeviceGetCurrPcieLinkWidth, number, of(gpu, "width"))
GETTER(nvmlDeviceGetPcieReplayCounter, number, of(gpu, "replays"))
GETTER(nvmlDeviceGetEnforcedPowerLimit, number, of(gpu, "limit"))
GETTER(nvmlDeviceGetPowerManagementDefaultLimit, number, of(gpu, "default"))
GETTER(nvmlDeviceGetPowerUsage, number, of(gpu, "power"))
GETTER(nvmlDeviceGetNvLinkErrorCounter, large, link || kind ? 0 : of(gpu, "link_errors"), number link, number kind)
GETTER(nvmlDeviceGetTemperature, number, sensor == 0 ? of(gpu, "temperature") : 0, number sensor)
GETTER(nvmlDeviceGetClockInfo, number, kind == 1 ? of(gpu, "clock") : 0, number kind) /* NVML_CLOCK_SM */
GETTER(nvmlDeviceGetCurrentClocksThrottleReasons, large, of(gpu, "reasons"))
GETTER(nvmlDeviceGetSupportedEventTypes, large, of(gpu, "events"))
#ifndef OLD
GETTER(nvmlDeviceGetCurrentClocksEventReasons, large, of(gpu, "reasons"))
#endif
