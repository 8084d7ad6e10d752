#!/bin/sh
# A job that only waits:  tgpu submit --gpus 1 -- sh examples/sleep_job.sh 30
seconds=${1:-10}
echo "job ${TGPU_JOB_ID:-?} sleeps for ${seconds} s on GPU ${CUDA_VISIBLE_DEVICES:-none}"
sleep "$seconds"
echo "done"
