#!/bin/sh
# A job on several GPUs:  tgpu submit --gpus 2 -- sh examples/multi_gpu_job.sh
# Fails unless it was given as many GPUs as it asked for.
echo "job ${TGPU_JOB_ID:-?}, attempt ${TGPU_ATTEMPT:-?}"
echo "CUDA_VISIBLE_DEVICES=${CUDA_VISIBLE_DEVICES-}"
echo "CUDA_DEVICE_ORDER=${CUDA_DEVICE_ORDER-}"

given=0
old_ifs=$IFS
IFS=,
for gpu in ${CUDA_VISIBLE_DEVICES-}; do
    echo "worker $given would use GPU $gpu"
    given=$((given + 1))
done
IFS=$old_ifs

if [ "$given" != "${TGPU_GPU_COUNT:-0}" ]; then
    echo "asked for ${TGPU_GPU_COUNT:-0} GPUs and was given $given" >&2
    exit 1
fi
echo "all $given GPUs are there"
