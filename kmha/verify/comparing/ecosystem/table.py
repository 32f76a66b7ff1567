"""All rows, in the order in which they are printed."""

from kmha.verify.comparing.ecosystem import exporting, models, programs, saving, training
from kmha.verify.comparing.ecosystem.row import Row

ROWS: tuple[Row, ...] = (*models.ROWS, *training.ROWS, *programs.ROWS, *saving.ROWS, *exporting.ROWS)
