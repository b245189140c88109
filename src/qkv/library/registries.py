"""The indexes, proxies, certificates and credentials in the configuration of pip, uv and npm.

None of these programs need be installed. Settings are read from the environment and from the files of the user and the
system, but not from the current folder, which may be an untrusted project. The default registries are those that pip
(the copy that comes with Python is enough) and npm name.
"""

import base64
import configparser
import netrc
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tomllib
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote, unquote, urlsplit

from ..disk.bounded_reading import JsonObject
from ..i18n import Problem, quoted
from .transfer import NetworkSettings, origin

ETC = Path("/etc")
TRUE = ("1", "true", "yes", "on", "y", "t")


@dataclass(frozen=True)
class Registry:
    """The sources of packages, in the order they are tried, and how to reach them."""

    indexes: tuple[str, ...]  # addresses of simple indexes, or of an npm registry
    find_links: tuple[str, ...] = ()  # folders of archives, or pages that link to some
    network: NetworkSettings = field(default_factory=NetworkSettings)


def python_registry(environ: Mapping[str, str] | None = None) -> Registry:
    """Return the sources of Python packages: those of pip, then those of uv; pip's default if neither names one."""
    environ = os.environ if environ is None else environ
    pip, uv = _pip_settings(environ), _uv_settings(environ)
    index_urls = _words(pip.get("index-url")) + uv.default_indexes
    if not index_urls and not (_is_true(pip.get("no-index")) or uv.no_index):
        index_urls = [default_python_index()]
    if _is_true(pip.get("no-index")):
        addresses = uv.default_indexes + uv.indexes
    else:
        addresses = index_urls + _words(pip.get("extra-index-url")) + uv.indexes
    find_links = [os.path.expanduser(location) for location in _words(pip.get("find-links")) + uv.find_links]
    return Registry(
        tuple(dict.fromkeys(map(_without_credentials, addresses))),
        tuple(dict.fromkeys(map(_without_credentials, find_links))),
        NetworkSettings(
            timeout=_seconds(pip.get("timeout") or pip.get("default-timeout")),
            ca_bundle=pip.get("cert") or environ.get("REQUESTS_CA_BUNDLE") or environ.get("CURL_CA_BUNDLE") or "",
            proxies={"http": pip["proxy"], "https": pip["proxy"]} if pip.get("proxy") else None,
            trusted_hosts=tuple(_words(pip.get("trusted-host")) + uv.trusted_hosts),
            authorization=_authorization(addresses + find_links, environ),
        ),
    )


def default_python_index() -> str:
    """Return the index that pip uses without settings, as the source of pip names it."""
    for folder in _copies_of_pip():
        try:
            source = (folder / "pip" / "_internal" / "models" / "index.py").read_text(encoding="utf-8")
        except (OSError, KeyError):  # a folder without pip; a wheel without that file
            continue
        if match := re.search(r'PackageIndex\(\s*"(https://[^"]+)"', source):
            return match[1].rstrip("/") + "/simple"
    raise Problem(
        "no package index is configured: this Python has no pip, and the settings of pip and uv name none. Set "
        "UV_DEFAULT_INDEX or PIP_INDEX_URL to the address of an index and try again"
    )


def _copies_of_pip() -> Iterator[Path | zipfile.Path]:
    """Yield where pip may lie: folders of modules, then the wheels that venv and ensurepip install it from."""
    yield from map(Path, sys.path)
    bundled = Path(sysconfig.get_path("stdlib")) / "ensurepip" / "_bundled"
    for folder in (bundled, Path(sysconfig.get_config_var("WHEEL_PKG_DIR") or "/usr/share/python-wheels")):
        for wheel in folder.glob("pip-*.whl"):
            with zipfile.ZipFile(wheel) as archive:
                yield zipfile.Path(archive)


def default_npm_registry() -> str:
    """Return the registry that npm uses without settings, as npm itself states it."""
    npm = shutil.which("npm")
    if npm is None:
        raise Problem(
            "no npm registry is configured and npm is not installed: install Node.js, which includes npm, or set "
            "NPM_CONFIG_REGISTRY to the address of a registry, and try again"
        )
    try:
        stated = subprocess.run(
            [npm, "config", "get", "registry"], capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=60
        ).stdout.strip()
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Problem("npm could not be run to find its registry: {why}", why=quoted(error)) from None
    if not stated.startswith(("http://", "https://")):
        raise Problem("npm returned no registry: set NPM_CONFIG_REGISTRY to the address of one and try again")
    return stated


def _pip_settings(environ: Mapping[str, str]) -> dict[str, str]:
    """Return pip's settings; a variable PIP_… replaces what files say, a later file what an earlier one says."""
    settings: dict[str, str] = {}
    for file in _pip_files(environ):
        parser = configparser.RawConfigParser()
        try:
            parser.read_string(file.read_text(encoding="utf-8", errors="replace"), str(file))
        except FileNotFoundError:
            continue
        except (OSError, configparser.Error) as error:
            raise _unreadable(file, error) from None
        for section in ("global", "install", "download"):
            if parser.has_section(section):
                for name, value in parser.items(section):
                    settings[name.removeprefix("--").replace("_", "-")] = value
    for name, value in environ.items():
        if name.startswith("PIP_") and value:
            settings[name.removeprefix("PIP_").lower().replace("_", "-")] = value
    return settings


def _pip_files(environ: Mapping[str, str]) -> list[Path]:
    """Return the files pip reads, the strongest last: system, user, environment, PIP_CONFIG_FILE."""
    named = environ.get("PIP_CONFIG_FILE")
    if named == os.devnull:
        return []
    home, name = Path(os.path.expanduser("~")), "pip.ini" if sys.platform == "win32" else "pip.conf"
    if sys.platform == "win32":
        system = [Path(environ.get("PROGRAMDATA", "C:\\ProgramData")) / "pip" / name]
        user = [home / "pip" / name, Path(environ.get("APPDATA", home / "AppData" / "Roaming")) / "pip" / name]
    elif sys.platform == "darwin":
        system, support = [Path("/Library/Application Support/pip") / name], home / "Library" / "Application Support"
        user = [home / ".pip" / name, (support if (support / "pip").is_dir() else home / ".config") / "pip" / name]
    else:
        system = [*(folder / "pip" / name for folder in _config_folders(environ)), ETC / name]
        user = [home / ".pip" / name, _config_home(environ) / "pip" / name]
    of_environment = [Path(sys.prefix) / name]
    if named and os.path.exists(named):
        return [*system, *of_environment, Path(named)]
    return [*system, *user, *of_environment]


def _config_folders(environ: Mapping[str, str]) -> list[Path]:
    folders = (environ.get("XDG_CONFIG_DIRS") or "/etc/xdg").split(os.pathsep)
    return [Path(folder) for folder in reversed(folders) if folder]


def _config_home(environ: Mapping[str, str]) -> Path:
    return Path(environ.get("XDG_CONFIG_HOME") or Path(os.path.expanduser("~")) / ".config")


@dataclass
class _Uv:
    default_indexes: list[str] = field(default_factory=list)
    indexes: list[str] = field(default_factory=list)
    find_links: list[str] = field(default_factory=list)
    trusted_hosts: list[str] = field(default_factory=list)
    no_index: bool = False


def _uv_settings(environ: Mapping[str, str]) -> _Uv:
    """Return uv's settings: a variable UV_… replaces what the files of user and system say."""
    tables: JsonObject = {}
    for file in _uv_files(environ):
        try:
            table = tomllib.loads(file.read_text(encoding="utf-8"))
        except FileNotFoundError:
            continue
        except (OSError, ValueError) as error:
            raise _unreadable(file, error) from None
        of_pip = table.get("pip")
        tables |= table | (of_pip if isinstance(of_pip, dict) else {})
    uv = _Uv(no_index=bool(tables.get("no-index")))
    uv.find_links, uv.trusted_hosts = _strings(tables.get("find-links")), _strings(tables.get("allow-insecure-host"))
    uv.default_indexes, uv.indexes = _strings(tables.get("index-url")), _strings(tables.get("extra-index-url"))
    named = tables.get("index")
    for index in named if isinstance(named, list) else []:
        if isinstance(index, dict) and isinstance(index.get("url"), str) and not index.get("explicit"):
            address = _with_uv_credentials(str(index.get("name") or ""), index["url"], environ)
            (uv.default_indexes if index.get("default") else uv.indexes).append(address)
    if value := environ.get("UV_DEFAULT_INDEX") or environ.get("UV_INDEX_URL"):
        uv.default_indexes = [_named_index(value, environ)]
    if value := environ.get("UV_INDEX") or environ.get("UV_EXTRA_INDEX_URL"):
        uv.indexes = [_named_index(word, environ) for word in value.split()]
    if value := environ.get("UV_FIND_LINKS"):
        uv.find_links = [word.strip() for word in value.split(",") if word.strip()]
    if value := environ.get("UV_INSECURE_HOST"):
        uv.trusted_hosts = value.split()
    if value := environ.get("UV_NO_INDEX"):
        uv.no_index = _is_true(value)
    if uv.no_index:
        uv.default_indexes, uv.indexes = [], []
    return uv


def _uv_files(environ: Mapping[str, str]) -> list[Path]:
    """Return the files uv reads for its user, the strongest last."""
    if _is_true(environ.get("UV_NO_CONFIG")):
        return []
    if named := environ.get("UV_CONFIG_FILE"):
        return [Path(named)]
    if sys.platform == "win32":
        folders = [Path(environ.get(name, "")) for name in ("PROGRAMDATA", "APPDATA") if environ.get(name)]
    else:
        folders = [ETC, *_config_folders(environ), _config_home(environ)]
    return [folder / "uv" / "uv.toml" for folder in folders]


def _named_index(value: str, environ: Mapping[str, str]) -> str:
    """Return the address of NAME=ADDRESS, with the credentials of that name, or of an address alone."""
    match = re.match(r"([\w.-]+)=(.+)", value)
    return _with_uv_credentials(match[1], match[2], environ) if match else value


def _with_uv_credentials(name: str, address: str, environ: Mapping[str, str]) -> str:
    """Return the address of a named index with UV_INDEX_NAME_USERNAME and UV_INDEX_NAME_PASSWORD in it."""
    prefix = "UV_INDEX_" + re.sub(r"[^A-Z0-9]", "_", name.upper())
    user, password = environ.get(f"{prefix}_USERNAME", ""), environ.get(f"{prefix}_PASSWORD", "")
    parts = urlsplit(address)
    if not name or not (user or password) or "@" in parts.netloc:
        return address
    return parts._replace(netloc=f"{quote(user, safe='')}:{quote(password, safe='')}@{parts.netloc}").geturl()


def npm_registry(environ: Mapping[str, str] | None = None) -> Registry:
    """Return the npm registry that npm is set to, by its variables and by the .npmrc of the user and the system."""
    environ = os.environ if environ is None else environ
    settings: dict[str, str] = {}
    variables = {name.lower(): value for name, value in environ.items() if name.lower().startswith("npm_config_")}
    user = variables.get("npm_config_userconfig") or os.path.expanduser("~/.npmrc")
    system = variables.get("npm_config_globalconfig")
    for file in (*([system] if system else ("/usr/local/etc/npmrc", "/usr/etc/npmrc", "/etc/npmrc")), user):
        settings |= _npmrc(Path(file), environ)
    settings |= {name[len("npm_config_") :].replace("_", "-"): value for name, value in variables.items() if value}
    address = settings.get("registry") or default_npm_registry()
    proxy = settings.get("https-proxy") or settings.get("proxy") or ""
    return Registry(
        (_without_credentials(address),),
        network=NetworkSettings(
            ca_bundle=settings.get("cafile") or "",
            proxies={"http": proxy, "https": proxy} if proxy.lower() not in ("", "null", "false") else None,
            trusted_hosts=(urlsplit(address).hostname or "",) if settings.get("strict-ssl") == "false" else (),
            authorization=_npm_authorization(address, settings) or _authorization([address], environ),
        ),
    )


def _npmrc(file: Path, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the settings of an .npmrc: name=value lines, with ${VARIABLE} in the values."""
    try:
        text = file.read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        raise _unreadable(file, error) from None
    settings = {}
    for line in text.splitlines():
        name, equals, value = line.partition("=")
        if equals and not line.lstrip().startswith(("#", ";", "[")):
            value = value.strip().strip("\"'")
            settings[name.strip()] = re.sub(r"\$\{([^}]+)\}", lambda m: environ.get(m[1], m[0]), value)
    return settings


def _npm_authorization(address: str, settings: Mapping[str, str]) -> dict[str, str]:
    """Return the header of a registry in an .npmrc: //host/path/:_authToken, :_auth, or a name and a password."""
    scope = address.partition(":")[2].rstrip("/")
    while scope.strip("/"):
        for prefix in (f"{scope}/:", f"{scope}:"):
            if token := settings.get(f"{prefix}_authToken"):
                return {origin(address): f"Bearer {token}"}
            if pair := settings.get(f"{prefix}_auth"):
                return {origin(address): f"Basic {pair}"}
            if (user := settings.get(f"{prefix}username")) and (password := settings.get(f"{prefix}_password")):
                secret = base64.b64decode(password + "==").decode("utf-8", "replace")
                return {origin(address): _basic(user, secret)}
        scope = scope.rpartition("/")[0]
    return {}


def _authorization(addresses: Iterable[str], environ: Mapping[str, str]) -> dict[str, str]:
    """Return the header for each origin that has credentials: in its address, else in .netrc."""
    headers, entries = {}, _netrc(environ)
    for address in addresses:
        parts = urlsplit(address)
        login = parts.netloc.rpartition("@")[0]
        if parts.scheme not in ("http", "https"):
            continue
        if login:
            user, _colon, password = login.partition(":")
            headers[origin(address)] = _basic(unquote(user), unquote(password))
        elif entries and (entry := entries.authenticators(parts.hostname or "")):
            headers.setdefault(origin(address), _basic(entry[0], entry[2] or ""))
    return headers


def _netrc(environ: Mapping[str, str]) -> netrc.netrc | None:
    for file in [environ["NETRC"]] if environ.get("NETRC") else ["~/.netrc", "~/_netrc"]:
        try:
            return netrc.netrc(os.path.expanduser(file))
        except (OSError, netrc.NetrcParseError, UnicodeDecodeError):
            continue
    return None


def _basic(user: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


def _without_credentials(address: str) -> str:
    parts = urlsplit(address)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl() if "@" in parts.netloc else address


def _words(value: str | None) -> list[str]:
    return (value or "").split()


def _strings(value: object) -> list[str]:
    """Return the strings of a TOML value: one alone, or a list."""
    return [each for each in (value if isinstance(value, list) else [value]) if isinstance(each, str)]


def _is_true(value: str | None) -> bool:
    return (value or "").strip().lower() in TRUE


def _seconds(value: str | None) -> float:
    """Return a timeout; 30 seconds if there is none or it is not a positive number."""
    try:
        seconds = float(value or 0)
    except ValueError:
        seconds = 0.0
    return seconds if 0 < seconds < 1e6 else 30.0


def _unreadable(file: Path, error: Exception) -> Problem:
    return Problem("the settings in {file} can't be read ({why}): correct that file", file=file, why=quoted(error))
