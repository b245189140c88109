"""Make .venv from requirements.lock when it is missing or out of date; otherwise return at once.

    python tools/setup.py [--quiet]        --quiet prints nothing if .venv is up to date

Standard library only. Errors print a sentence and exit with code 2. Messages are in the language of the system, English or
Chinese (QKV_LANG, LC_ALL, LC_MESSAGES, LANG).
"""

import sys

# First, so that an old Python prints this message instead of a SyntaxError further down.
if sys.version_info < (3, 11):
    sys.stderr.write("qkv needs Python 3.11 or newer and this is %d.%d; try e.g. python3.12\n" % sys.version_info[:2])
    sys.exit(2)

import hashlib
import json
import os
import re
import subprocess
import sysconfig
from collections import deque
from importlib import util
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
LOCK = ROOT / "requirements.lock"
STAMP = VENV / "qkv-setup.json"  # written last: a .venv without it was interrupted
MARKER = VENV / "qkv-setup"  # in every .venv that this script made
BIN = VENV / ("Scripts" if os.name == "nt" else "bin")
PYTHON = BIN / ("python.exe" if os.name == "nt" else "python")
VERSION = ".".join(map(str, sys.version_info[:3]))
OLDEST_TORCH = (2, 6)
LANGUAGE = next(filter(None, map(os.environ.get, ("QKV_LANG", "LC_ALL", "LC_MESSAGES", "LANG"))), "en")
CHINESE = {
    "making .venv with Python {version}": "正在用 Python {version} 建立 .venv",
    "fetching torch {version}, the largest part (this can take minutes)": "正在下载 torch {version}，这是最大的一部分（可能要几分钟）",
    "fetching the other packages of requirements.lock": "正在下载 requirements.lock 里的其他包",
    "installing qkv from this folder": "正在从本文件夹安装 qkv",
    "downloading {name} {version} ({size} {unit})": "下载 {name} {version}（{size} {unit}）",
    "installing {name}": "安装 {name}",
    "installing {name} and {n} more": "安装 {name} 和另外 {n} 个包",
    "using the torch {version} that this Python has already": "这个 Python 已经装有 torch {version}，直接使用",
    "requirements.lock or pyproject.toml has changed: bringing .venv up to date": "requirements.lock 或 pyproject.toml 有改动：正在更新 .venv",
    "that torch does not work from .venv: starting again with one of its own": "那个 torch 在 .venv 里不能用：重新安装一个",
    '.venv is ready. To begin, type: {command} steps "The cat sat on the mat"': '.venv 已就绪。开始使用：{command} steps "我 爱 北京"',
    "Python could not put pip into .venv ({error}). Is its venv module complete?": "无法在 .venv 里安装 pip（{error}）。Python 的 venv 模块完整吗？",
    "The disk is full: make room, then run this again.": "磁盘已满：请腾出空间后再运行。",
    "No package index answered: check the network (or proxy, or pip's settings), then run this again.": "连不上软件包仓库：请检查网络（或代理、pip 的设置）后再运行。",
    "There is no such package for Python {version} on this system: try another Python, e.g. python3.12.": "没有适合本系统 Python {version} 的包：请换一个 Python，例如 python3.12。",
    "Put right what pip says above, then run this again.": "请按上面 pip 的提示处理后再运行。",
    "pip could not install what qkv needs. {advice}": "pip 无法安装 qkv 需要的包。{advice}",
    "This Python has no {module} module, which makes .venv. On Debian or Ubuntu: sudo apt install {package}; then run this again.": "这个 Python 没有建立 .venv 所需的 {module} 模块。在 Debian 或 Ubuntu 上：sudo apt install {package}，然后再运行。",
    "Everything is installed but torch does not start; see why with: {python} -c 'import torch'": "都装好了，但 torch 无法启动；查看原因：{python} -c 'import torch'",
    "stopped; .venv is not complete, and the next run makes it anew": "已停止；.venv 还不完整，下次运行会重新建立",
    "The .venv here was made by something else, such as uv, and is left as it is: use it (.venv/bin/qkv), or move it away and run this again.": "这里的 .venv 是由别的工具（例如 uv）建立的，没有改动它：请直接使用（.venv/bin/qkv），或把它移走后再运行。",
    "could not make .venv: {error}. Close what uses it, or delete it, and try again.": "无法建立 .venv：{error}。请关闭正在使用它的程序，或删除它，然后重试。",
}


class Failed(Exception):
    """An error with a message for the user."""


def translate(english, **values):
    """Return a message in the language of the system, with its values."""
    return (CHINESE[english] if LANGUAGE.lower().startswith("zh") else english).format(**values)


def say(english, indent="", **values):
    print(indent + translate(english, **values), flush=True)


def expected_stamp():
    """Return the stamp of a complete .venv for this lock, project file, Python and folder."""
    files = hashlib.sha256(LOCK.read_bytes() + (ROOT / "pyproject.toml").read_bytes())
    return {"files": files.hexdigest(), "python": VERSION, "home": sys.base_prefix, "folder": str(VENV)}


def read_stamp():
    try:
        stamp = json.loads(STAMP.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    torch_missing = stamp.get("torch") and not os.path.exists(stamp["torch"])
    return {} if torch_missing or not PYTHON.exists() else stamp


def read_lock():
    """Return two lists of pins: torch with its own dependencies (the first block with pins), and the rest."""
    blocks = []
    for block in LOCK.read_text(encoding="utf-8").split("\n\n"):
        pins = [line.strip() for line in block.splitlines() if line.strip() and not line.startswith("#")]
        blocks += [pins] if pins else []
    return blocks[0], [pin for block in blocks[1:] for pin in block]


def version_here(name):
    """Return the version of a package in the Python that runs this, or None."""
    from importlib import metadata  # imported here, since it is slow and often not needed

    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def find_torch():
    """Return the folder and version of this Python's torch if it is new enough and can be imported, else None."""
    spec, version = util.find_spec("torch"), version_here("torch")
    if spec is None or spec.origin is None or version is None:
        return None
    numbers = tuple(int(n) for n in re.findall(r"\d+", version)[:2])
    if numbers < OLDEST_TORCH or subprocess.run([sys.executable, "-c", "import torch"], capture_output=True).returncode:
        return None
    return Path(spec.origin).parent, version


def make_venv(torch_folder):
    """Create .venv; with `torch_folder`, it also uses the packages of the Python that runs this."""
    import venv

    say("making .venv with Python {version}", version=VERSION)
    in_venv = sys.prefix != sys.base_prefix
    builder = venv.EnvBuilder(
        system_site_packages=bool(torch_folder) and not in_venv, clear=True, symlinks=os.name != "nt", with_pip=True
    )
    try:
        builder.create(VENV)
        MARKER.touch()
    except subprocess.CalledProcessError as error:
        problem = "Python could not put pip into .venv ({error}). Is its venv module complete?"
        raise Failed(translate(problem, error=error)) from None
    if torch_folder and in_venv:
        # A venv made from a venv sees only the Python below both, so point to the outer one's packages.
        site = Path(sysconfig.get_path("purelib", "venv", {"base": str(VENV)}))
        outer = {str(torch_folder.parent), sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
        (site / "outer-venv.pth").write_text("\n".join(sorted(outer)) + "\n", encoding="utf-8")


def short(line):
    """Return a short form of a line of pip, or None for other lines."""
    match = re.match(r"\s*Downloading (?:\S*/)?([^-/\s]+)-([^-\s]+)\S* \(([\d.]+) ([MG]B)\)", line)
    if match:
        name, version, size, unit = match.groups()
        version = version.split("+")[0].removesuffix(".tar.gz")
        size = f"{float(size):.{0 if unit == 'MB' else 1}f}"
        return translate(
            "downloading {name} {version} ({size} {unit})", name=name, version=version, size=size, unit=unit
        )
    if line.startswith("Installing collected packages: "):
        names = line.split(": ", 1)[1].split(", ")
        # pip lists dependencies first, so the requested packages are at the end.
        if len(names) == 1:
            return translate("installing {name}", name=names[0])
        return translate("installing {name} and {n} more", name=names[-1], n=len(names) - 1)
    return None


def advice(output):
    if "No space left" in output:
        return translate("The disk is full: make room, then run this again.")
    if "Retrying" in output or "from versions: none" in output or "timed out" in output:
        return translate(
            "No package index answered: check the network (or proxy, or pip's settings), then run this again."
        )
    if "No matching distribution" in output:
        return translate(
            "There is no such package for Python {version} on this system: try another Python, e.g. python3.12.",
            version=VERSION,
        )
    return translate("Put right what pip says above, then run this again.")


def pip(*arguments):
    command = [str(PYTHON), "-m", "pip", "install", "--disable-pip-version-check", "--no-input", *arguments]
    # A personal `user = true` setting would make pip refuse to work in a venv.
    environment = {**os.environ, "PIP_USER": "0", "PYTHONUNBUFFERED": "1", "PYTHONIOENCODING": "utf-8"}
    lines = deque(maxlen=200)
    with subprocess.Popen(
        command, cwd=ROOT, env=environment, text=True, encoding="utf-8", errors="replace",
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    ) as process:  # fmt: skip
        try:
            for line in process.stdout:
                lines.append(line.rstrip())
                news = short(lines[-1])
                if news:
                    print("  " + news, flush=True)
        except KeyboardInterrupt:
            process.terminate()
            process.wait()
            raise
    if process.returncode:
        last = "\n".join("  pip: " + line[:200] for line in list(lines)[-5:] if line)
        problem = translate("pip could not install what qkv needs. {advice}", advice=advice(" ".join(lines)))
        raise Failed(f"{last}\n{problem}")


def torch_works():
    check = "import torch, numpy; assert torch.from_numpy(numpy.ones(2)).sum().numpy() == 2"
    return subprocess.run([str(PYTHON), "-c", check], capture_output=True).returncode == 0


def install(torch, fresh):
    """Bring .venv to what the lock says; `torch` is the (folder, version) to use in place of the locked one."""
    with_torch, rest = read_lock()
    if fresh:
        make_venv(torch and torch[0])
    if torch:
        rest = [pin for pin in with_torch[1:] if version_here(pin.split("==")[0]) is None] + rest
    else:
        if fresh:
            version = with_torch[0].split("==")[1]
            say("fetching torch {version}, the largest part (this can take minutes)", version=version)
        pip(*with_torch)
        rest = with_torch + rest
    say("fetching the other packages of requirements.lock")
    pip(*rest)
    say("installing qkv from this folder")
    pip("--no-deps", "--no-build-isolation", "--editable", ".")
    make_links_relative()
    return torch_works()


def make_links_relative():
    """Let .venv find this folder's src by a relative path.

    Before 3.13 Python reads .pth files in the encoding of the locale: with LC_ALL=C it would not even start if the path
    of this folder is not ASCII.
    """
    site = Path(sysconfig.get_path("purelib", "venv", {"base": str(VENV)}))
    source = ROOT / "src"
    for link in site.glob("*.pth"):
        if link.read_text(encoding="utf-8").strip() == str(source):
            link.write_text(os.path.relpath(source, site).replace(os.sep, "/") + "\n", encoding="utf-8")


def set_up(stamp, target):
    for module in ("venv", "ensurepip"):
        if util.find_spec(module) is None:
            package = f"python{sys.version_info[0]}.{sys.version_info[1]}-venv"
            problem = (
                "This Python has no {module} module, which makes .venv. "
                "On Debian or Ubuntu: sudo apt install {package}; then run this again."
            )
            raise Failed(translate(problem, module=module, package=package))
    if (VENV / "pyvenv.cfg").exists():
        if not (STAMP.exists() or MARKER.exists()):
            problem = (
                "The .venv here was made by something else, such as uv, and is left as it is: "
                "use it (.venv/bin/qkv), or move it away and run this again."
            )
            raise Failed(translate(problem))
        MARKER.touch()
    # A finished .venv of the same Python and folder is only brought up to date, which spares reinstalling torch.
    fresh = any(stamp.get(key) != target[key] for key in ("python", "home", "folder"))
    STAMP.unlink(missing_ok=True)
    torch = None
    if not fresh:
        say("requirements.lock or pyproject.toml has changed: bringing .venv up to date")
        torch = stamp["torch"] and (Path(stamp["torch"]), "")
    else:
        torch = find_torch()
        if torch:
            say("using the torch {version} that this Python has already", version=torch[1])
    works = install(torch, fresh)
    if torch and not works:
        say("that torch does not work from .venv: starting again with one of its own")
        torch = None
        works = install(None, True)
    if not works:
        problem = "Everything is installed but torch does not start; see why with: {python} -c 'import torch'"
        raise Failed(translate(problem, python=PYTHON))
    target["torch"] = str(torch[0]) if torch else ""
    STAMP.write_text(json.dumps(target, indent=1), encoding="utf-8")


def main():
    quiet = "--quiet" in sys.argv[1:]
    stamp, target = read_stamp(), expected_stamp()
    done = {**stamp, **target} == stamp
    if not done:
        if Path(sys.prefix).resolve() == VENV.resolve():
            # Run by .venv's own Python, which is about to be replaced: hand over to the one it was made from.
            return subprocess.call([sys._base_executable, __file__, *sys.argv[1:]])
        set_up(stamp, target)
    if not (done and quiet):
        command = (BIN / "qkv").relative_to(ROOT)
        say('.venv is ready. To begin, type: {command} steps "The cat sat on the mat"', command=command)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        print("\n" + translate("stopped; .venv is not complete, and the next run makes it anew"), file=sys.stderr)
        sys.exit(130)
    except Failed as error:
        print(error, file=sys.stderr)
    except OSError as error:
        problem = "could not make .venv: {error}. Close what uses it, or delete it, and try again."
        print(translate(problem, error=error), file=sys.stderr)
    sys.exit(2)
