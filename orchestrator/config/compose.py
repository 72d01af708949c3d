"""Composes `conf/` with Hydra, once per group option, and turns its exceptions into one sentence each."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from operator import attrgetter
from pathlib import Path
from typing import Any, TypeVar

import yaml
from hydra import compose, initialize_config_dir
from hydra.core.config_store import ConfigStore
from hydra.errors import HydraException, MissingConfigException
from omegaconf import DictConfig, ListConfig, OmegaConf
from omegaconf.errors import ConfigAttributeError, ConfigKeyError, OmegaConfBaseException

from orchestrator.config.fields import check_ranges, choices, find_key
from orchestrator.settings import ConfigError, RootSettings

T = TypeVar("T")


class Composer:
    """The options of `conf/` under one experiment file and launcher. Made by `composer`."""

    def __init__(self, conf: Path, fixed: Mapping[str, str]) -> None:
        self._conf = conf
        self._fixed = [f"{group}={option}" for group, option in fixed.items()]
        self._base, self._chosen = self._compose([])
        self._nodes: dict[tuple[str, str], DictConfig] = {}

    def chosen(self, group: str) -> str:
        """The option that the group has when no axis names one."""
        return self._chosen[group]

    def node(self, group: str, option: str) -> DictConfig:
        """The composed section of one group option. Composed once, and only then checked to stand by itself."""
        key = (group, option)
        if key not in self._nodes:
            self._nodes[key] = (
                self._base[group] if option == self._chosen[group] else self._compose_option(group, option)
            )
        return self._nodes[key]

    def settings(self, group: str, option: str, values: Mapping[str, Any], cls: type[T]) -> T:
        """The typed settings of an option with some keys set: what Hydra makes of `group=option key=value...`."""
        node = copy.deepcopy(self.node(group, option))
        assign(node, group, values)
        return materialise(node, group, cls)

    def changed(self, group: str, option: str, settings: Any, keys: Collection[str]) -> dict[str, Any]:
        """Those of the dotted keys whose value in `settings` is not the option's own, with that value."""
        if not keys:
            return {}
        own, found = self.settings(group, option, {}, type(settings)), {}
        for key in keys:
            path = attrgetter(key.removeprefix(f"{group}."))
            if path(own) != path(settings):
                found[key] = path(settings)
        return found

    def options(self, group: str) -> list[str]:
        """The options of a group: its files' names."""
        return group_options(self._conf, group)

    def root_value(self, key: str) -> Any:
        """A plain value at the top: name, seed or sweep. Raises ConfigError on interpolations."""
        _refuse_interpolation(self._base, key)
        value = self._base[key]
        return OmegaConf.to_container(value) if OmegaConf.is_config(value) else value

    def whole(self, overrides: list[str]) -> dict[str, Any]:
        """The typed sections, and the seed, of one cell's own overrides: composed by Hydra from end to end."""
        config, _ = self._compose(overrides)
        return {str(key): value for key, value in OmegaConf.to_object(config).items()}  # type: ignore[union-attr]

    def _compose_option(self, group: str, option: str) -> DictConfig:
        composed, _ = self._compose([f"{group}={option}"])
        for section in map(str, self._base):
            if section != group and composed[section] != self._base[section]:
                raise ConfigError(
                    f"{group}={option} also changes {section}: options are axes, so each may set its own group only"
                )
        node: DictConfig = composed[group]
        return node

    def _compose(self, overrides: list[str]) -> tuple[DictConfig, dict[str, str]]:
        asked = [*self._fixed, *overrides]
        try:
            config = compose("config", overrides=asked, return_hydra_config=True)
        except (HydraException, OmegaConfBaseException, yaml.YAMLError) as error:
            raise ConfigError(_sentence(error, f"{self._conf.name}/ ({' '.join(asked) or 'defaults'})")) from error
        selected: dict[str, str] = dict(config.hydra.runtime.choices)
        sections = {item.name for item in dataclasses.fields(RootSettings)}
        return OmegaConf.masked_copy(config, list(sections)), selected


@contextmanager
def composer(conf: Path, fixed: Mapping[str, str]) -> Iterator[Composer]:
    """Open `conf` with Hydra; `fixed` chooses experiment, launcher and tracking. Raises ConfigError."""
    for group, option in fixed.items():
        if option not in (options := group_options(conf, group)):
            raise ConfigError(f"{group} has no option {option!r} {choices(str(option), options)}")
    ConfigStore.instance().store(name="root", node=RootSettings)
    with initialize_config_dir(str(conf), version_base="1.3", job_name="kernelsweep"):
        yield Composer(conf, fixed)


def group_options(conf: Path, group: str) -> list[str]:
    """The options of a group: its files' names."""
    folder = conf / group
    return sorted(path.relative_to(folder).with_suffix("").as_posix() for path in folder.rglob("*.yaml"))


def assign(node: DictConfig, section: str, values: Mapping[str, Any]) -> None:
    """Set dotted keys such as `budget.turns` in the composed section, as Hydra does. Raises ConfigError."""
    for key, value in values.items():
        try:
            OmegaConf.update(node, key.removeprefix(f"{section}."), value, merge=True)
        except OmegaConfBaseException as error:
            raise ConfigError(f"{key} cannot be {value!r}: it takes {find_key(key).takes}") from error


def materialise(node: DictConfig, section: str, cls: type[T]) -> T:
    """The section as its dataclass. Raises ConfigError on interpolations and on values out of range."""
    _refuse_interpolations(node, section)
    settings = OmegaConf.to_object(node)
    if not isinstance(settings, cls):
        raise ConfigError(f"{section} is not a {cls.__name__}: it must not be null or replaced")
    check_ranges(settings, section)
    return settings


def _refuse_interpolations(node: DictConfig | ListConfig, where: str) -> None:
    for key in range(len(node)) if isinstance(node, ListConfig) else list(node):
        _refuse_interpolation(node, key, f"{where}.{key}")


def _refuse_interpolation(node: DictConfig | ListConfig, key: Any, where: str = "") -> None:
    """Another section's value would be that of the base, and the clock's or the environment's another one tomorrow."""
    name = where or str(key)
    if OmegaConf.is_interpolation(node, key):
        raise ConfigError(
            f"{name} is an interpolation: axes are composed apart, and a cell means the same everywhere and at any "
            "time, so write the value"
        )
    if OmegaConf.is_config(node[key]):
        _refuse_interpolations(node[key], name)


def _sentence(error: BaseException, where: str) -> str:
    """What is wrong, by the exception's type and fields; its text is quoted, never searched."""
    chain = [error]
    while (inner := chain[-1].__cause__ or chain[-1].__context__) is not None:
        chain.append(inner)
    for item in chain:
        if isinstance(item, MissingConfigException) and item.missing_cfg_file is not None:
            valid = f" {choices(item.missing_cfg_file, item.options)}" if item.options else ""
            return f"{where}: there is no {item.missing_cfg_file}{valid}"
        if isinstance(item, OmegaConfBaseException) and item.full_key:
            return f"{where}: {_key_sentence(item)}"
        if isinstance(item, yaml.MarkedYAMLError) and item.problem_mark is not None:
            return f"{item.problem_mark.name}, line {item.problem_mark.line + 1}: {item.problem}"
    return f"{where}: {str(error).splitlines()[0] if str(error) else type(error).__name__}"


def _key_sentence(error: OmegaConfBaseException) -> str:
    if isinstance(error, (ConfigKeyError, ConfigAttributeError)) and dataclasses.is_dataclass(error.object_type):
        names = [item.name for item in dataclasses.fields(error.object_type)]
        return f"there is no key {error.full_key} {choices(str(error.key), names)}"
    return f"{error.full_key} takes {find_key(str(error.full_key)).takes}"
