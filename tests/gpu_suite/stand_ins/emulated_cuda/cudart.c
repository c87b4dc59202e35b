// The CUDA runtime without a GPU, as far as onnxruntime's CUDA provider asks it: memory is host memory, copies copy,
// kernels do nothing. While a stream is captured, what CUDA forbids then is refused.
#include <stdlib.h>
#include <string.h>

enum { OK = 0, OUT_OF_MEMORY = 2, CAPTURING = 900 };
enum { DEVICE_MEMORY = 2, ALIGNMENT = 256, HANDLE = 4096, VERSION = 13000, MAJOR = 8, MINOR = 6, PROCESSORS = 80 };
enum { THREADS = 1024, WARP = 32, REGISTERS = 65536, SHARED = 49152, SHARED_MOST = 101376 };
static const size_t total = 8ull << 30;
static int capturing;

// The device

// The start of cudaDeviceProp; what follows is zero.
struct properties {
  char name[256], uuid[16], luid[8];
  unsigned mask;
  size_t memory, shared;
  int registers, warp;
  size_t pitch;
  int threads, dimensions[3], grid[3];
  size_t constants;
  int major, minor;
  size_t alignment, pitch_alignment;
  int processors;
};

int cudaGetDeviceCount(int *count) { return *count = 1, OK; }
int cudaGetDevice(int *device) { return *device = 0, OK; }
int cudaRuntimeGetVersion(int *version) { return *version = VERSION, OK; }
int cudaDriverGetVersion(int *version) { return *version = VERSION, OK; }
int cudaMemGetInfo(size_t *free, size_t *all) { return *free = *all = total, OK; }

int cudaGetDeviceProperties(struct properties *found, int device) {
  const int most = 2147483647;
  memset(found, 0, 700);
  *found = (struct properties){
      .name = "no GPU: emulated", .memory = total, .shared = SHARED, .registers = REGISTERS, .warp = WARP,
      .threads = THREADS, .dimensions = {THREADS, THREADS, THREADS}, .grid = {most, most, most}, .constants = 65536,
      .major = MAJOR, .minor = MINOR, .alignment = 512, .pitch_alignment = 32, .processors = PROCESSORS};
  return OK;
}

int cudaDeviceGetAttribute(int *value, int attribute, int device) {
  switch (attribute) {
  case 1: *value = THREADS; break;
  case 8: *value = SHARED; break;
  case 10: *value = WARP; break;
  case 16: *value = PROCESSORS; break;
  case 39: *value = 1536; break; // threads per processor
  case 75: *value = MAJOR; break;
  case 76: *value = MINOR; break;
  case 81: case 97: *value = SHARED_MOST; break;
  default: *value = 1;
  }
  return OK;
}

// Memory

static int allocate(void **to, size_t size) {
  if (capturing) return CAPTURING;
  if (posix_memalign(to, ALIGNMENT, size ? size : ALIGNMENT)) return OUT_OF_MEMORY;
  memset(*to, 0, size);
  return OK;
}
static int copy(void *to, const void *from, size_t size) { return memmove(to, from, size), OK; }

int cudaMalloc(void **to, size_t size) { return allocate(to, size); }
int cudaMallocHost(void **to, size_t size) { return allocate(to, size); }
int cudaHostAlloc(void **to, size_t size, unsigned flags) { return allocate(to, size); }
int cudaMallocFromPoolAsync(void **to, size_t size, void *pool, void *stream) { return allocate(to, size); }
int cudaFree(void *memory) { return free(memory), OK; }
int cudaFreeHost(void *memory) { return free(memory), OK; }
int cudaFreeAsync(void *memory, void *stream) { return free(memory), OK; }
int cudaMemcpy(void *to, const void *from, size_t size, int kind) { return capturing ? CAPTURING : copy(to, from, size); }
int cudaMemcpyAsync(void *to, const void *from, size_t size, int kind, void *stream) { return copy(to, from, size); }
int cudaMemcpy2DAsync(char *to, size_t to_pitch, const char *from, size_t pitch, size_t width, size_t height, int kind,
                      void *stream) {
  for (size_t row = 0; row < height; row++) copy(to + row * to_pitch, from + row * pitch, width);
  return OK;
}
int cudaMemcpyFromSymbol(void *to, const void *symbol, size_t size, size_t offset, int kind) {
  return memset(to, 0, size), OK;
}
int cudaMemset(void *to, int value, size_t size) { return memset(to, value, size), OK; }
int cudaMemsetAsync(void *to, int value, size_t size, void *stream) { return memset(to, value, size), OK; }
int cudaMemPoolGetAttribute(void *pool, int attribute, unsigned long long *value) { return *value = 0, OK; }

struct pointer { int kind, device; const void *memory, *host; };
int cudaPointerGetAttributes(struct pointer *found, const void *memory) {
  return *found = (struct pointer){DEVICE_MEMORY, 0, memory, 0}, OK;
}

// Streams, events, graphs: handles

static int handle(void **to) { return *to = calloc(1, HANDLE), OK; }
static int wait(void) { return capturing ? CAPTURING : OK; }

int cudaStreamCreate(void **to) { return handle(to); }
int cudaStreamCreateWithFlags(void **to, unsigned flags) { return handle(to); }
int cudaStreamSynchronize(void *stream) { return wait(); }
int cudaDeviceSynchronize(void) { return wait(); }
int cudaEventCreate(void **to) { return handle(to); }
int cudaEventCreateWithFlags(void **to, unsigned flags) { return handle(to); }
int cudaEventElapsedTime(float *milliseconds, void *from, void *to) { return *milliseconds = 0, OK; }
int cudaMemPoolCreate(void **to, const void *properties) { return handle(to); }
int cudaStreamBeginCapture(void *stream, int mode) { return capturing = 1, OK; }
int cudaStreamEndCapture(void *stream, void **graph) { return capturing = 0, handle(graph); }
int cudaStreamIsCapturing(void *stream, int *status) { return *status = capturing, OK; }
int cudaGraphInstantiate(void **to, void *graph, unsigned long long flags) { return handle(to); }
static int launches;
int cudaGraphLaunch(void *graph, void *stream) { return launches++, OK; }
int emulated_graph_launches(void) { return launches; }
int cudaLaunchHostFunc(void *stream, void (*function)(void *), void *data) { return function(data), OK; }

// Kernels

static long zeros[64];
static int nothing(void) { return OK; }

struct function { size_t shared, constants, local; int threads, registers, ptx, binary; char rest[16]; };
int cudaFuncGetAttributes(struct function *found, const void *function) {
  const int version = 10 * MAJOR + MINOR;
  return *found = (struct function){0, 0, 0, THREADS, 32, version, version, {0}}, OK;
}
int cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks, const void *function, int size, size_t shared,
                                                           unsigned flags) {
  return *blocks = 1, OK;
}
int cudaGetDriverEntryPointByVersion(const char *name, void **to, unsigned version, unsigned long long flags,
                                     int *status) {
  if (status) *status = 0;
  return *to = (void *)nothing, OK;
}
int cudaLibraryLoadData(void **to) { return handle(to); }
int cudaLibraryGetKernel(void **to) { return handle(to); }
int __cudaGetKernel(void **to) { return *to = zeros, OK; }
void *__cudaRegisterFatBinary(void) { return zeros; }
int __cudaPopCallConfiguration(void *grid, void *block, size_t *shared, void **stream) {
  memset(grid, 0, 12);
  memset(block, 0, 12);
  return *shared = 0, *stream = 0, OK;
}
