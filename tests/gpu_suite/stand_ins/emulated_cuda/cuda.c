// The CUDA driver without a GPU, as far as this project asks it: one device, whose memory is host memory.
#include <stdio.h>

static const size_t total = 8ull << 30;
static long context[64];

int cuDeviceGetCount(int *count) { return *count = 1, 0; }
int cuDeviceGet(int *device, int index) { return *device = index, 0; }
int cuDriverGetVersion(int *version) { return *version = 13000, 0; }
int cuDeviceGetName(char *name, int length, int device) { return snprintf(name, length, "no GPU: emulated"), 0; }
int cuDeviceTotalMem_v2(size_t *size, int device) { return *size = total, 0; }
int cuMemGetInfo_v2(size_t *free, size_t *all) { return *free = *all = total, 0; }
int cuDeviceGetAttribute(int *value, int attribute, int device) {
  return *value = attribute == 75 ? 8 : attribute == 76 ? 6 : 1, 0; // compute capability 8.6
}
int cuDeviceCanAccessPeer(int *able, int one, int other) { return *able = 0, 0; }
int cuDevicePrimaryCtxRetain(void **to, int device) { return *to = context, 0; }
int cuCtxPopCurrent_v2(void **to) { return *to = context, 0; }
int cuGetErrorString(int error, const char **text) { return *text = "emulated", 0; }
