"""The verdicts of a diagnosis.

| verdict | meaning |
| --- | --- |
| `RIGHT` | the candidate's numbers are those of the reference |
| `KNOWN` | mistakes of the bank give the same wrong numbers |
| `UNKNOWN` | the numbers are wrong, and no mistakes of the bank give the same numbers |
| `RAISES` | the candidate raises an error in every call |
| `UNJUDGED` | the calls that ran do not suffice for a verdict |
"""

RIGHT, KNOWN, UNKNOWN, RAISES, UNJUDGED = "right", "known", "unknown", "raises", "unjudged"
