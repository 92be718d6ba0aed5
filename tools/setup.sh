# SPDX-License-Identifier: BSD-3-Clause
#
# Sourced by tools/demo and tools/test: installs what is missing, and only that. A second run
# compares stamps (hashes of the files that decide an installation) and does nothing.

readonly ROOT="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
readonly VENV="$ROOT/.venv"
readonly VENV_TOSA="$ROOT/.venv-tosa"
readonly CONSTRAINTS="$ROOT/tools/constraints.txt"

readonly PACKAGES_RUN=(g++ gcc-arm-none-eabi libstdc++-arm-none-eabi-newlib qemu-system-arm)
# alsa-utils: its recordings of a voice are inputs of a keyword spotting model (examples/mlperf_tiny).
# The compilers and emulators: of the boards that are not Arm microcontrollers.
readonly PACKAGES_TEST=(
  alsa-utils clang-format-14 libgtest-dev
  gcc-xtensa-lx106 picolibc-xtensa-lx106-elf qemu-system-misc
  g++-aarch64-linux-gnu qemu-user
)

say() { printf '\n== %s\n' "$*"; }

die() {
  printf 'error: %s\n' "$*" >&2
  exit 1
}

as_root() {
  if [[ $EUID -eq 0 ]]; then "$@"; else sudo "$@"; fi
}

# quietly <command...>: shows the command's output only if it fails.
quietly() {
  local log
  log="$(mktemp)"
  if ! "$@" >"$log" 2>&1; then
    cat "$log" >&2
    rm -f "$log"
    die "this failed: $*"
  fi
  rm -f "$log"
}

# in_background <function> <argument...>: starts it; wait_for_background fails if it does.
BACKGROUND=()
in_background() {
  "$@" &
  BACKGROUND+=("$!")
}

wait_for_background() {
  local job
  for job in "${BACKGROUND[@]}"; do wait "$job" || exit 1; done
  BACKGROUND=()
}

# have_package <name>: whether the Debian package is installed.
have_package() {
  [[ "$(dpkg-query --show --showformat='${db:Status-Status}' "$1" 2>/dev/null)" == installed ]]
}

# install_packages <name...>: Debian packages, those that are missing.
install_packages() {
  command -v dpkg-query >/dev/null || die "needs Debian or Ubuntu; install by hand: $*"
  local name missing=()
  for name in "$@"; do
    have_package "$name" || missing+=("$name")
  done
  if ((${#missing[@]} == 0)); then return; fi
  say "Installing Debian packages: ${missing[*]}"
  quietly as_root apt-get update
  quietly as_root env DEBIAN_FRONTEND=noninteractive \
    apt-get install --yes --no-install-recommends "${missing[@]}"
}

# stamp_of <path...>: one hash over the contents and names of all files under these paths.
stamp_of() {
  (cd "$ROOT" && find "$@" -type f -not -name '*.pyc' -print0 | LC_ALL=C sort -z |
    xargs -0 sha256sum | sha256sum | cut -d' ' -f1)
}

# make_venv <folder>: a Python 3.11 virtual environment, unless there is one.
make_venv() {
  if [[ -x "$1/bin/python" ]]; then return; fi
  if ! python3.11 -c 'import ensurepip, venv' 2>/dev/null; then
    install_packages python3.11 python3.11-venv
  fi
  say "Making the virtual environment ${1#"$ROOT"/}"
  rm -rf "$1"
  python3.11 -m venv "$1"
}

# pip_install <venv> <argument...>: byte code is left to the first import, which needs a fraction.
pip_install() {
  local venv="$1"
  shift
  quietly "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-compile "$@"
}

# The packages that pyproject.toml asks for, to build, to run and to test, one a line.
requirements() {
  "$VENV/bin/python" - "$ROOT/pyproject.toml" <<'PY'
import sys, tomllib
with open(sys.argv[1], "rb") as file:
    content = tomllib.load(file)
project = content["project"]
extras = project["optional-dependencies"]
names = content["build-system"]["requires"] + project["dependencies"]
print("\n".join([*names, *extras["examples"], *extras["test"]]))
PY
}

# install_requirements: the packages above in .venv. Needs nothing but pip, so that Debian packages
# can be installed at the same time.
install_requirements() {
  make_venv "$VENV"
  local stamp names
  stamp="$(stamp_of pyproject.toml tools/constraints.txt)"
  if [[ "$(cat "$VENV/stamp-requirements" 2>/dev/null)" == "$stamp" ]]; then return; fi
  say "Installing Python packages in .venv (torch, executorch, ...; some minutes the first time)"
  rm -f "$VENV/stamp-build"
  mapfile -t names < <(requirements)
  pip_install "$VENV" --constraint "$CONSTRAINTS" "${names[@]}"
  echo "$stamp" >"$VENV/stamp-requirements"
}

# Python packages and the editable installation of this checkout in .venv. Editable, so that only a
# change of the C++ side or of the metadata needs another build.
setup_python() {
  install_requirements
  local stamp
  stamp="$(stamp_of pyproject.toml CMakeLists.txt cmake schema runtime)"
  if [[ "$(cat "$VENV/stamp-build" 2>/dev/null)" == "$stamp" ]]; then return; fi
  say "Building fused_quant and installing it in .venv"
  pip_install "$VENV" --constraint "$CONSTRAINTS" --no-build-isolation --no-deps \
    --config-settings=build-dir="$ROOT/build/editable" --editable "$ROOT[examples,test]"
  echo "$stamp" >"$VENV/stamp-build"
}

# The wheel as any user builds it, in an isolated environment, in build/wheel. The packaging tests
# install it; building it does not need .venv, only pip.
build_wheel() {
  local folder="$ROOT/build/wheel" stamp
  stamp="$(stamp_of pyproject.toml CMakeLists.txt README.md LICENSE cmake schema runtime backends)"
  if [[ "$(cat "$folder/stamp" 2>/dev/null)" == "$stamp" ]]; then return; fi
  rm -rf "$folder"
  quietly "$VENV/bin/python" -m pip wheel --quiet --disable-pip-version-check --no-deps \
    --wheel-dir "$folder" "$ROOT"
  echo "$stamp" >"$folder/stamp"
}

# The TOSA reference model, in an environment of its own: its flatbuffers version is another one.
setup_tosa() {
  make_venv "$VENV_TOSA"
  local stamp
  stamp="$(sha256sum <"$ROOT/tools/requirements-tosa.txt" | cut -d' ' -f1)"
  if [[ "$(cat "$VENV_TOSA/stamp-requirements" 2>/dev/null)" == "$stamp" ]]; then return; fi
  say "Installing the TOSA reference model in .venv-tosa"
  pip_install "$VENV_TOSA" --requirement "$ROOT/tools/requirements-tosa.txt"
  echo "$stamp" >"$VENV_TOSA/stamp-requirements"
}
