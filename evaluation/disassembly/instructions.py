"""Classes of SASS instructions, by the mnemonics in NVIDIA's tables ("CUDA Binary Utilities", Volta to Blackwell).

A tensor core operation is told by its whole first part: HMMA, IMMA, DMMA, HGMMA, UTCHMMA and the like. `HFMA2.MMA` is
none: it is a packed half-precision multiply-add, and `.MMA` names the pipe that issues it.
"""

from __future__ import annotations

import re
from collections import Counter

TENSOR, OTHER = "tensor", "other"

_NAMES = {
    "fp32": "FADD FADD2 FADD32I FCHK FFMA FFMA2 FFMA32I FHADD FHFMA FMNMX FMNMX3 FMUL FMUL2 FMUL32I FSEL FSET FSETP "
    "FSWZADD",
    "half": "HADD2 HADD2_32I HFMA2 HFMA2_32I HMNMX2 HMUL2 HMUL2_32I HSET2 HSETP2",
    "fp64": "DADD DFMA DMUL DSETP DMNMX DSET",
    "special": "MUFU",
    "alu": "BMSK BREV FLO IABS IADD IADD2 IADD3 IADD32I IDP IDP4A IMAD IMNMX IMUL IMUL32I ISCADD ISCADD32I ISETP LEA "
    "LOP LOP3 LOP32I POPC SHF SHL SHR VABSDIFF VABSDIFF4 VHMNMX VIADD VIADDMNMX VIMNMX VIMNMX3 PLOP3 PSETP P2R R2P "
    "SEL SGXT CLEA",
    "move": "MOV MOV32I MOVM PRMT R2UR P2UR UP2UR UR2UP S2R S2UR CS2R CS2UR B2R R2B LEPC GETLMEMBASE SETLMEMBASE",
    "shuffle": "SHFL VOTE VOTEU MATCH REDUX CREDUX",
    "conversion": "F2F F2I I2F I2I I2IP I2FP F2IP FRND F2FP",
    "load_global": "LDG LDGMC",
    "store_global": "STG",
    "load_shared": "LDS LDSM",
    "store_shared": "STS STSM STAS",
    "load_local": "LDL",
    "store_local": "STL",
    "load_generic": "LD QSPC",
    "store_generic": "ST",
    "load_constant": "LDC LDCU",
    "tensor_memory": "LDT LDTM STT STTM UTCCP UTCSHIFT UTCATOMSWS",
    "async_copy": "LDGSTS LDGDEPBAR UBLKCP UBLKPF UBLKRED UTMALDG UTMAPF UTMAREDG UTMASTG UTMACMDFLUSH UTMACCTL",
    "atomic": "ATOM ATOMS ATOMG RED REDG REDAS SUATOM SURED",
    "texture": "TEX TLD TLD4 TMML TXD TXQ SULD SUST",
    "barrier": "BAR SYNCS DEPBAR MEMBAR ERRBAR CGAERRBAR UCGABAR_ARV UCGABAR_WAIT UCGABAR ACQBULK WARPSYNC FENCE "
    "WARPGROUP WARPGROUPSET UTCBAR ARRIVES CCTL CCTLL CCTLT",
    "control": "BMOV BPT BRA BREAK BRX BRXU BSSY BSYNC CALL ELECT ENDCOLLECTIVE EXIT JMP JMX JMXU KILL NANOSLEEP "
    "PREEXIT RET RPCMOV YIELD PMTRIG SETCTAID SETMAXREG USETMAXREG USETSHMSZ",
}
_CLASS = {name: kind for kind, names in _NAMES.items() for name in names.split()}
_TENSOR = re.compile(r"([HIBDQO]|[HIBQO]G|UTC[HIQO])MMA")
_WIDTH = re.compile(r"\.(?:[US](8|16)|(64|128|256))\b")


def class_of(mnemonic: str) -> str:
    """The class of one instruction, such as `FFMA.FTZ` or `LDG.E.128`; `other` for what the tables do not have.

    What the uniform data path computes (`UIADD3`) is of the class of its namesake (`IADD3`).
    """
    name = mnemonic.split(".", 1)[0]
    if _TENSOR.fullmatch(name):
        return TENSOR
    if mnemonic.startswith("IMAD.MOV"):
        return "move"
    return _CLASS.get(name) or (_CLASS.get(name[1:], OTHER) if name.startswith("U") else OTHER)


def bits_of(mnemonic: str) -> int:
    """How many bits a load gives each thread."""
    width = _WIDTH.search(mnemonic)
    return int(width[1] or width[2]) if width else 32


class Mix:
    """Counts instructions one by one; padding is left out."""

    def __init__(self) -> None:
        self._classes: Counter[str] = Counter()
        self._tensor: Counter[str] = Counter()
        self._bits: Counter[int] = Counter()

    def add(self, mnemonic: str) -> None:
        """Count one."""
        if mnemonic == "NOP":
            return
        kind = class_of(mnemonic)
        self._classes[kind] += 1
        if kind == TENSOR:
            self._tensor[mnemonic.split(".", 1)[0]] += 1
        elif kind == "load_global":
            self._bits[bits_of(mnemonic)] += 1

    @property
    def total(self) -> int:
        """All that were counted."""
        return self._classes.total()

    @property
    def classes(self) -> dict[str, int]:
        """By class, most first."""
        return _ordered(self._classes)

    @property
    def tensor(self) -> dict[str, int]:
        """Operations of tensor cores by mnemonic."""
        return _ordered(self._tensor)

    @property
    def global_load_bits(self) -> dict[str, int]:
        """Loads of global memory by width, widest first."""
        return {str(bits): self._bits[bits] for bits in sorted(self._bits, reverse=True)}


def _ordered(counts: Counter[str]) -> dict[str, int]:
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))
