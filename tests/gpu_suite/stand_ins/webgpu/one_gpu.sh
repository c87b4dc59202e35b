#!/bin/sh
# Run a command where /sys/class/drm shows one made-up GPU: onnxruntime looks there before it asks Vulkan.
# In a mount namespace of its own: unshare --mount one_gpu.sh COMMAND...
set -eu
mount -t tmpfs tmpfs /sys/class
mkdir -p /sys/class/drm/card0/device /sys/class/drm/renderD128
echo 0x1ae0 >/sys/class/drm/card0/device/vendor
echo 0xc0de >/sys/class/drm/card0/device/device
echo 0x030000 >/sys/class/drm/card0/device/class
exec "$@"
