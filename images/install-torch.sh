#!/bin/sh
# Installs uv into /opt/uv, and torch, NumPy and gpu-smoke into /opt/torch. All three images run this script.
#   TORCH and CUDA   a pair of docs/guides/container-images.md, such as 2.14.1 and cu130, or both empty
#   OWNER            the user who may install more packages into /opt/torch; root if empty
# Without TORCH and CUDA, the packages are those of agent/gpu_agent/torch.lock, checked by their hashes.
set -eu
if [ "${TORCH:+given}" != "${CUDA:+given}" ]; then
  printf 'install-torch: one build argument is missing\n  got: TORCH=%s CUDA=%s\n' "${TORCH:-}" "${CUDA:-}" >&2
  printf '  expected: both, or none\n  hint: docs/guides/container-images.md lists the pairs that work\n' >&2
  exit 2
fi
source=$(dirname "$(dirname "$0")")

# With this variable, bytecode has the hash of its source. Without it, it has the time of its source, which each build
# changes. The value does not matter here: it is the first second of 1980, the oldest time in a ZIP file.
export SOURCE_DATE_EPOCH=315532800

python3 -m venv /opt/uv
/opt/uv/bin/pip install --quiet --no-cache-dir --disable-pip-version-check \
  --require-hashes -r "$source/agent/gpu_agent/uv.lock"

uv=/opt/uv/bin/uv
"$uv" venv --quiet --python "$(command -v python3)" /opt/torch
if [ -z "${TORCH:-}" ]; then
  "$uv" pip sync --python /opt/torch --require-hashes "$source/agent/gpu_agent/torch.lock"
else
  # uv knows the index of each CUDA build. Its files are not those of the lock, so no hash can be checked.
  "$uv" pip install --python /opt/torch --torch-backend "$CUDA" "torch==$TORCH" numpy
fi

packages=$(/opt/torch/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
cp -r "$source/smoke/gpu_smoke" "$packages/"
/opt/torch/bin/python -m compileall -q "$packages/gpu_smoke"
# The command of an environment that has the package's folder, but not the wheel of gpu-ci.
printf '#!/bin/sh\nexec /opt/torch/bin/python -m gpu_smoke "$@"\n' > /opt/torch/bin/gpu-smoke
chmod 755 /opt/torch/bin/gpu-smoke
# In the same layer: a later chown would copy 5 GB into another one.
chown -R "${OWNER:-0:0}" /opt/torch
