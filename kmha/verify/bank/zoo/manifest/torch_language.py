"""Entries of torch packages for language and sound."""

from kmha.verify.bank.zoo.entry import Entry

ENTRIES = (Entry("conformer", "conformer.conformer:Attention", "attention", "torch"),)
