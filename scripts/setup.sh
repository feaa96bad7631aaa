#!/usr/bin/env bash
# Makes .venv in the checkout, with everything that `make run` and `make test` need.
#
# Needs Python 3.11 or newer. Missing Debian packages are installed where the user is root, and
# named in one message otherwise. A second run finds its stamp and does nothing.
set -euo pipefail
cd "$(dirname "$0")/.."

stamp=.venv/.stamp
wanted=$(cat pyproject.toml scripts/setup.sh | sha256sum | cut -d' ' -f1)
if [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$wanted" ] && [ -x .venv/bin/antiphon ] \
    && command -v iverilog g++ make >/dev/null; then
  exit 0
fi

python=""
for candidate in python3.11 python3.12 python3.13 python3; do
  if command -v "$candidate" >/dev/null \
      && "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
    python=$candidate
    break
  fi
done
if [ -z "$python" ]; then
  echo "setup: Python 3.11 or newer must be installed" >&2
  exit 1
fi
version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')

# What is missing, and the Debian package that brings it.
needed=()
command -v iverilog >/dev/null || needed+=(iverilog)  # the second simulator
command -v g++ >/dev/null || needed+=(g++)  # compiles what Verilator writes
command -v make >/dev/null || needed+=(make)
"$python" -c 'import ensurepip, venv' 2>/dev/null || needed+=("python$version-venv")
"$python" - <<'PYTHON' || needed+=("libpython$version")  # cocotb embeds Python in the simulator
import ctypes.util, sys, sysconfig
name = "python%d.%d" % sys.version_info[:2]
sys.exit(not (sysconfig.get_config_var("Py_ENABLE_SHARED") or ctypes.util.find_library(name)))
PYTHON
useful=()
command -v ccache >/dev/null || useful+=(ccache)  # builds of models fall from a minute to seconds
printf '#include <lz4.h>\n#include <zlib.h>\n' | g++ -E -x c++ - >/dev/null 2>&1 \
  || useful+=(liblz4-dev zlib1g-dev)  # waveforms of Verilator's models
command -v berkeley-abc >/dev/null || command -v yosys-abc >/dev/null \
  || useful+=(berkeley-abc)  # proofs for all times
command -v sta >/dev/null || useful+=(opensta)  # timing of what is synthesised
[ -f /usr/share/qflow/tech/osu018/osu018_stdcells.lib ] \
  || useful+=(qflow-tech-osu018)  # the standard cells that it is mapped to

if [ "$(id -u)" = 0 ] && [ $((${#needed[@]} + ${#useful[@]})) -gt 0 ]; then
  echo "setup: installing the Debian packages ${needed[*]} ${useful[*]}"
  export DEBIAN_FRONTEND=noninteractive
  apt-get update -qq
  apt-get install -y -qq --no-install-recommends "${needed[@]}" "${useful[@]}" >/dev/null
elif [ ${#needed[@]} -gt 0 ]; then
  echo "setup: these Debian packages must be installed first: ${needed[*]} ${useful[*]}" >&2
  echo "setup: as root, run: apt-get install --no-install-recommends ${needed[*]} ${useful[*]}" >&2
  exit 1
elif [ ${#useful[@]} -gt 0 ]; then
  echo "setup: of use, but not needed, are the Debian packages ${useful[*]}"
fi

if [ ! -x .venv/bin/python ] || ! .venv/bin/python -c 'import pip' 2>/dev/null; then
  echo "setup: making .venv with $("$python" --version)"
  rm -rf .venv
  "$python" -m venv .venv
fi
echo "setup: installing the Python packages of pyproject.toml"
.venv/bin/python -m pip install -qq --disable-pip-version-check --editable '.[dev]'
echo "$wanted" > "$stamp"
echo "setup: done"
