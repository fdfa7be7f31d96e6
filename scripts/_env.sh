# shellcheck shell=bash
# Sourced by demo, check and test. Gives each a Python environment, `.venv` in the checkout, made at the first run:
#   need_environment runtime    what regrow itself needs
#   need_environment dev        and what the checks and tests need
# Afterwards $python is its interpreter and its programs come first on PATH. Versions are those of constraints.txt.
# Needs Python 3.11 or newer and one of: uv, python3-venv, python3-pip. No make, no compiler.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
venv=$root/.venv
python=$venv/bin/python

fail() {
    printf '%s\n' "error: $*" >&2
    exit 1
}

say() {
    printf '%s\n' "-- $*"
}

# The first interpreter that is new enough; a link to it goes into the environment.
base_python() {
    local candidate
    for candidate in python3 python3.13 python3.12 python3.11; do
        if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            printf '%s\n' "$candidate"
            return
        fi
    done
    fail "no Python 3.11 or newer on PATH; install python3"
}

# Runs a step quietly; shows all that it printed only when it fails.
quietly() {
    local log status=0
    log=$(mktemp)
    "$@" >"$log" 2>&1 || status=$?
    [ "$status" -eq 0 ] || cat "$log" >&2
    rm -f "$log"
    return "$status"
}

make_environment() {
    local base
    base=$(base_python) || exit 1
    say "making .venv ($("$base" --version))"
    rm -rf "$venv"
    if command -v uv >/dev/null && quietly uv venv --quiet --python "$base" "$venv"; then
        return
    fi
    # Debian's python3 has no ensurepip; the pip beside it can install into an environment that has none.
    "$base" -m venv "$venv" >/dev/null 2>&1 && return
    rm -rf "$venv"
    quietly "$base" -m venv --without-pip "$venv" || fail "$base cannot make an environment"
    "$base" -m pip --version >/dev/null 2>&1 ||
        fail "neither uv, python3-venv nor python3-pip is here; install one of them (apt-get install python3-venv)"
}

# install_with COMMAND...: an installer and its options. The build tool comes first, so that its version is pinned too.
install_with() {
    quietly "$@" --constraint "$root/constraints.txt" hatchling &&
        quietly "$@" --constraint "$root/constraints.txt" --no-build-isolation --editable "$target"
}

install() {
    local target=$1 base
    export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore
    if command -v uv >/dev/null; then
        # uv does not read pip's configuration: where only pip knows the package index, pip goes on below.
        install_with uv pip install --quiet --python "$python" && return
        say "uv could not install; trying pip"
    fi
    if "$python" -m pip --version >/dev/null 2>&1; then
        install_with "$python" -m pip install --quiet
    else
        base=$(base_python) || exit 1
        install_with "$base" -m pip --python "$python" install --quiet
    fi || fail "installing $target failed; the lines above say why"
}

# What the environment was made from: another interpreter, place or pin means another sum.
wanted_sum() {
    {
        cat "$root/pyproject.toml" "$root/constraints.txt"
        "$python" --version
        printf '%s\n' "$root"
    } | cksum
}

need_environment() {
    local kind=$1 target=$root stamp=$venv/regrow-$1.sum
    [ "$kind" = runtime ] || target="${root}[$kind]"
    if command -v flock >/dev/null; then # two scripts at once: the second waits for the first's environment
        exec {lock}>"$root/.venv.lock"
        flock "$lock"
    fi
    "$python" -c '' 2>/dev/null || make_environment
    if [ "$kind" = runtime ] && [ "$(cat "$venv/regrow-dev.sum" 2>/dev/null)" = "$(wanted_sum)" ]; then
        : # the larger environment holds the smaller one
    elif [ "$(cat "$stamp" 2>/dev/null)" != "$(wanted_sum)" ]; then
        say "installing regrow ($kind) into .venv"
        install "$target"
        wanted_sum >"$stamp"
    fi
    [ -z "${lock:-}" ] || exec {lock}>&-
    export PATH=$venv/bin:$PATH VIRTUAL_ENV=$venv
    unset PYTHONHOME
}
