"""The settings of pip, uv and npm: their files, their precedence, and that none of the programs is needed."""

import base64
import os
import sys
import sysconfig

import pytest

from qkv.i18n import Problem
from qkv.library import registries
from qkv.library.registries import default_npm_registry, default_python_index, npm_registry, python_registry

PIP_DEFAULT, NPM_DEFAULT = "https://pip.default/simple", "https://npm.default"


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    """No settings but those of a test: a home, a system folder and an environment of its own."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "venv"))
    monkeypatch.setattr(registries, "ETC", tmp_path / "etc")
    monkeypatch.setattr(registries, "default_python_index", lambda: PIP_DEFAULT)
    monkeypatch.setattr(registries, "default_npm_registry", lambda: NPM_DEFAULT)
    return tmp_path


@pytest.fixture
def settings(home):
    """Write files under the home, then read the settings with these variables."""

    def read(files=(), registry=python_registry, **variables):
        for name, text in dict(files).items():
            file = home / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
        defaults = {"XDG_CONFIG_DIRS": str(home / "system"), "XDG_CONFIG_HOME": str(home / ".config")}
        return registry({**defaults, "NPM_CONFIG_GLOBALCONFIG": str(home / "system" / "npmrc"), **variables})

    return read


def test_without_settings_the_public_registries_are_used(settings):
    network = settings().network
    assert settings().indexes == (PIP_DEFAULT,) and network.timeout == 30 and network.proxies is None
    assert settings(registry=npm_registry).indexes == (NPM_DEFAULT,)


def test_the_public_index_is_that_of_pip(monkeypatch, tmp_path):
    from pip._internal.models.index import PyPI

    assert default_python_index() == PyPI.simple_url, "of the pip that is installed"
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    assert default_python_index() == PyPI.simple_url, "of the pip that comes with Python"
    monkeypatch.setattr(sysconfig, "get_path", lambda name: str(tmp_path))
    monkeypatch.setattr(sysconfig, "get_config_var", lambda name: str(tmp_path))
    with pytest.raises(Problem, match=r"no package index is configured.*UV_DEFAULT_INDEX"):
        default_python_index()


@pytest.mark.skipif(sys.platform == "win32", reason="npm is a shell script here")
@pytest.mark.parametrize(
    ("script", "sentence"),
    [
        ("echo https://from.npm/", None),
        ("echo undefined", "npm returned no registry"),
        ("exit 1", "npm returned no registry"),
        (None, "npm is not installed"),
    ],
)
def test_the_public_npm_registry_is_that_of_npm(script, sentence, monkeypatch, tmp_path):
    if script is not None:
        (tmp_path / "npm").write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / "npm").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    if sentence is None:
        assert default_npm_registry() == "https://from.npm/"
    else:
        with pytest.raises(Problem, match=sentence):
            default_npm_registry()


PIP = "[global]\nindex-url = https://{0}/simple\ntimeout = {1}\n"


def test_of_pips_files_the_nearest_wins(settings, home):
    files = {"system/pip/pip.conf": PIP.format("system", 1), ".config/pip/pip.conf": PIP.format("user", 2)}
    assert settings({"system/pip/pip.conf": files["system/pip/pip.conf"]}).indexes == ("https://system/simple",)
    assert settings(files).indexes == ("https://user/simple",)
    assert settings({"etc/pip.conf": PIP.format("etc", 4)}).network.timeout == 2
    assert settings({"venv/pip.conf": PIP.format("venv", 3)}).network.timeout == 3
    named = str(home / "named.conf")
    (home / "venv" / "pip.conf").unlink()
    assert settings(PIP_CONFIG_FILE=named).indexes == ("https://user/simple",), "that file does not exist"
    assert settings({"named.conf": "[global]\ntimeout = 9\n"}, PIP_CONFIG_FILE=named).network.timeout == 9
    assert settings(PIP_CONFIG_FILE=named).indexes == ("https://etc/simple",), "it replaces the user's own file"
    assert settings(PIP_CONFIG_FILE=os.devnull).indexes == (PIP_DEFAULT,)
    assert settings(PIP_INDEX_URL="https://variable").indexes == ("https://variable",)


def test_all_settings_of_pip(settings):
    text = """
[global]
index_url = https://first/simple
extra-index-url =
    https://second/simple
    https://me:s%40cret@third:8443/simple
trusted-host = fourth fifth:99
find-links = ~/wheels https://links/page.html
cert = /certificates.pem
proxy = http://proxy:3128
timeout = soon
[download]
index-url = https://downloads/simple
"""
    registry = settings({".config/pip/pip.conf": text})
    assert registry.indexes == ("https://downloads/simple", "https://second/simple", "https://third:8443/simple")
    assert registry.find_links == (os.path.expanduser("~/wheels"), "https://links/page.html")
    network = registry.network
    assert network.trusted_hosts == ("fourth", "fifth:99") and network.ca_bundle == "/certificates.pem"
    assert network.proxies == {"http": "http://proxy:3128", "https": "http://proxy:3128"} and network.timeout == 30
    assert network.authorization == {"https://third:8443": "Basic " + base64.b64encode(b"me:s@cret").decode()}
    assert settings(PIP_NO_INDEX="true").indexes == ()
    assert (
        settings(PIP_CERT="", REQUESTS_CA_BUNDLE="/other.pem", PIP_CONFIG_FILE=os.devnull).network.ca_bundle
        == "/other.pem"
    )


@pytest.mark.parametrize(
    ("variables", "indexes"),
    [
        ({"UV_DEFAULT_INDEX": "https://a/simple"}, ("https://a/simple",)),
        (
            {"UV_INDEX_URL": "https://a/simple", "UV_INDEX": "b=https://b/simple https://c"},
            ("https://a/simple", "https://b/simple", "https://c"),
        ),
        ({"UV_EXTRA_INDEX_URL": "https://b/simple"}, (PIP_DEFAULT, "https://b/simple")),
        ({"UV_NO_INDEX": "1", "UV_INDEX": "https://b/simple"}, ()),
        ({"PIP_INDEX_URL": "https://p", "UV_DEFAULT_INDEX": "https://u"}, ("https://p", "https://u")),
        ({"PIP_NO_INDEX": "1", "UV_DEFAULT_INDEX": "https://u"}, ("https://u",)),
    ],
)
def test_variables_of_uv(variables, indexes, settings):
    assert settings(**variables).indexes == indexes


def test_files_of_uv(settings, home):
    text = """
find-links = ["/wheels"]
allow-insecure-host = ["inside"]
[[index]]
name = "my own"
url = "https://own/simple"
[[index]]
url = "https://first/simple"
default = true
[[index]]
name = "torch"
url = "https://torch/whl"
explicit = true
"""
    login = {"UV_INDEX_MY_OWN_USERNAME": "me", "UV_INDEX_MY_OWN_PASSWORD": "s@cret"}
    registry = settings({".config/uv/uv.toml": text}, **login)
    assert registry.indexes == ("https://first/simple", "https://own/simple") and registry.find_links == ("/wheels",)
    assert registry.network.trusted_hosts == ("inside",)
    assert registry.network.authorization == {"https://own": "Basic " + base64.b64encode(b"me:s@cret").decode()}
    assert settings(UV_NO_CONFIG="1").indexes == (PIP_DEFAULT,)
    named = {"named.toml": 'index-url = "https://plain"\n[pip]\nextra-index-url = ["https://pip"]\n'}
    assert settings(named, UV_CONFIG_FILE=str(home / "named.toml")).indexes == ("https://plain", "https://pip")


def test_netrc_is_for_hosts_that_the_user_named(settings):
    netrc = {".netrc": "machine inside login me password secret\ndefault login any password any\n"}
    registry = settings(netrc, PIP_INDEX_URL="https://inside:8443/simple", PIP_FIND_LINKS="https://u:p@inside/x /local")
    assert registry.network.authorization == {
        "https://inside:8443": "Basic " + base64.b64encode(b"me:secret").decode(),
        "https://inside": "Basic " + base64.b64encode(b"u:p").decode(),
    }


def test_npm(settings, monkeypatch):
    files = {
        "system/npmrc": "registry=https://system/npm/\ncafile=/own.pem\nproxy=null\n",
        ".npmrc": '; a comment\n# another\nregistry = "https://inside:99/api/npm/"\n'
        "//inside:99/api/:_authToken=${TOKEN}\nhttps-proxy=http://proxy:1\nstrict-ssl=false\n",
    }
    registry = settings(files, npm_registry, TOKEN="t0ken")
    assert registry.indexes == ("https://inside:99/api/npm/",)
    network = registry.network
    assert network.authorization == {"https://inside:99": "Bearer t0ken"} and network.ca_bundle == "/own.pem"
    assert network.proxies == {"http": "http://proxy:1", "https": "http://proxy:1"}
    assert network.trusted_hosts == ("inside",)
    other = settings((), npm_registry, npm_config_registry="https://other")
    assert other.indexes == ("https://other",) and not other.network.authorization
    password = base64.b64encode(b"secret").decode()
    logged_in = {".npmrc": f"registry=https://inside\n//inside/:username=me\n//inside/:_password={password}\n"}
    header = settings(logged_in, npm_registry).network.authorization["https://inside"]
    assert header == "Basic " + base64.b64encode(b"me:secret").decode()
    assert settings(
        {".npmrc": "registry=https://inside\n//inside/:_auth=abc\n"}, npm_registry
    ).network.authorization == {"https://inside": "Basic abc"}


@pytest.mark.parametrize(
    ("file", "text", "variables"),
    [(".config/pip/pip.conf", "index-url = x", {}), (".config/uv/uv.toml", "index-url = ", {})],
)
def test_files_that_can_not_be_read_are_named(file, text, variables, settings):
    with pytest.raises(Problem, match=rf"the settings in .*{os.path.basename(file)} can't be read"):
        settings({file: text}, **variables)


@pytest.mark.parametrize(
    ("platform", "file", "variables"),
    [
        ("darwin", "Library/Application Support/pip/pip.conf", {}),
        ("win32", "roaming/pip/pip.ini", {"APPDATA": "{home}/roaming"}),
        ("linux", ".pip/pip.conf", {}),
    ],
)
def test_where_each_system_keeps_pips_settings(platform, file, variables, settings, home, monkeypatch):
    monkeypatch.setattr(sys, "platform", platform)
    variables = {name: value.format(home=home) for name, value in variables.items()}
    assert settings({file: PIP.format("user", 1)}, **variables).indexes == ("https://user/simple",)
