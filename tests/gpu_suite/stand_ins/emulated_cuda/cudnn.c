// cuDNN without a GPU: what hands out sizes, addresses or versions, or checks what onnxruntime relies on to be checked.
#include <stdlib.h>

enum { OK = 0, BAD_PARAMETER = 2000, WORKSPACE = 256, MOST_AXES = 3 };

size_t cudnnGetVersion(void) { return 91600; }
void cudnnGetLastErrorString(char *text, size_t size) {
  if (size) *text = 0;
}
int cudnnBackendCreateDescriptor(int kind, void **to) { return *to = calloc(1, 4096), OK; }
int cudnnDropoutGetStatesSize(void *handle, size_t *size) { return *size = WORKSPACE, OK; }
int cudnnGetConvolutionForwardWorkspaceSize(void *handle, void *x, void *w, void *convolution, void *y, int algorithm,
                                            size_t *size) {
  return *size = WORKSPACE, OK;
}
int cudnnGetReductionIndicesSize(void *handle, void *reduction, void *x, void *y, size_t *size) {
  return *size = WORKSPACE, OK;
}
int cudnnGetReductionWorkspaceSize(void *handle, void *reduction, void *x, void *y, size_t *size) {
  return *size = WORKSPACE, OK;
}
int cudnnGetRNNTempSpaceSizes(void *handle, void *rnn, int mode, void *x, size_t *work, size_t *reserve) {
  if (reserve) *reserve = WORKSPACE;
  return *work = WORKSPACE, OK;
}
int cudnnGetRNNWeightParams(void *handle, void *rnn, int layer, size_t size, void *weights, int gate, void *weight,
                            void **weight_address, void *bias, void **bias_address) {
  return *weight_address = *bias_address = weights, OK;
}
int cudnnGetTensorNdDescriptor(void *tensor, int wanted, int *type, int *axes, int *sizes, int *strides) {
  *type = 0;
  *axes = wanted < MOST_AXES ? wanted : MOST_AXES;
  for (int axis = 0; axis < *axes; axis++) sizes[axis] = strides[axis] = 1;
  return OK;
}
int cudnnSetLRNDescriptor(void *lrn, unsigned size, double alpha, double beta, double k) {
  return size < 1 || size > 16 || k < 1e-5 || beta < 0.01 ? BAD_PARAMETER : OK;
}
