#!/usr/bin/env bash
# Writes the files of this folder with the programs that README.md names. Run it in this folder.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -r "$work"' EXIT

cat > "$work/rows.R" <<'R'
rows <- data.frame(
  dose = c(1.5, 0.25, 10.75), age = c(71L, 8L, 43L), name = c("Müller", "Åse", "O'Neil"),
  note = c("line one\nline two", "a; b, c | d", "she said \"no\""), flag = c(TRUE, FALSE, TRUE),
  day = as.Date(c("2024-01-31", "2023-12-01", "1999-02-28")))
write.csv(rows, "r.csv", row.names = FALSE, fileEncoding = "UTF-8")
write.csv2(rows, "r-csv2-windows-1252.csv", row.names = FALSE, fileEncoding = "WINDOWS-1252")
write.table(rows, "r-tabs-utf-16-le.tsv", sep = "\t", dec = ",", row.names = FALSE, qmethod = "double", fileEncoding = "UTF-16LE")
write.csv2(transform(rows, dose = c("1.500,5", "1.250", "12.000")), "r-thousands.csv", row.names = FALSE, fileEncoding = "UTF-8")
write.csv2(transform(rows, dose = c("1.500", "2.250", "12.000")), "r-ambiguous.csv", row.names = FALSE, fileEncoding = "UTF-8")
R
LC_ALL=C.UTF-8 Rscript "$work/rows.R"
iconv -f UTF-8 -t UTF-16 r.csv > iconv-utf-16.csv
iconv -f UTF-8 -t UTF-16BE r.csv | { printf '\xfe\xff'; cat; } > iconv-utf-16-be.csv
iconv -f UTF-8 -t LATIN1 r.csv > iconv-latin-1.csv
iconv -f UTF-8 -t MACINTOSH r.csv > iconv-mac-roman.csv
bzip2 --stdout r.csv > bzip2.csv.bz2
zstd --quiet --stdout r.csv > zstd.csv.zst

"${PYTHON:-python3}" - "$work" <<'PY'
import sys

import pandas as pd

rows = pd.read_csv("r.csv", parse_dates=["day"])
rows.to_csv("pandas-semicolons-bom.csv.gz", sep=";", decimal=",", encoding="utf-8-sig", index=False)
rows.to_csv("pandas-tabs.tsv", sep="\t", index=False)
rows.to_excel(f"{sys.argv[1]}/rows.xlsx", index=False)
PY

soffice --headless --convert-to 'csv:Text - txt - csv (StarCalc):59,34,1,1,,1031,false,true' --outdir "$work" "$work/rows.xlsx" > /dev/null
mv "$work/rows.csv" libreoffice-semicolons.csv
ssconvert -O 'separator=| charset=ISO-8859-15 eol=windows' r.csv "$work/rows.txt"
mv "$work/rows.txt" gnumeric-bars-latin-9.csv
sqlite3 -cmd '.import --csv r.csv rows' :memory: '.headers on' '.mode csv' '.separator ;' 'SELECT * FROM rows' > sqlite-semicolons.csv

"${PYTHON:-python3}" - <<'PY'
import datetime as dt

import openpyxl
import pandas as pd
import pyarrow as pa
import xlsxwriter

rows = pd.read_csv("r.csv", parse_dates=["day"])
rows.to_feather("pandas-lz4.feather")
rows.to_feather("pandas-zstd.feather", compression="zstd")
rows.to_parquet("pandas.parquet")
table = pa.Table.from_pandas(rows, preserve_index=False)
with pa.ipc.new_stream("pyarrow-stream.arrow", table.schema) as stream:
    stream.write_table(table)

# what a person makes in a workbook: two sheets, dates, a time, formulas, an error, an empty row, a long number
with xlsxwriter.Workbook("xlsxwriter.xlsx") as book:
    day, moment = (book.add_format({"num_format": form}) for form in ("dd.mm.yyyy", "dd.mm.yyyy hh:mm"))
    sheet = book.add_worksheet("patients")
    book.add_worksheet("notes").write(0, 0, "made by hand")
    sheet.write_row(0, 0, ["dose", "twice", "day", "seen", "flag", "code"])
    for at, dose, date, flag in ((1, 1.5, dt.datetime(2024, 1, 31), True), (3, 10.75, dt.datetime(1999, 2, 28), False)):
        sheet.write_number(at, 0, dose)
        sheet.write_formula(at, 1, f"=A{at + 1}*2", None, dose * 2)
        sheet.write_datetime(at, 2, date, day)
        sheet.write_datetime(at, 3, date + dt.timedelta(hours=13, minutes=5), moment)
        sheet.write_boolean(at, 4, flag)
        sheet.write_number(at, 5, 4006381333931)
    sheet.write_formula(5, 0, "=1/0", None, "#DIV/0!")
book = openpyxl.Workbook()
book.active.append(["dose", "twice"])
book.active.append([1.5, "=A2*2"])
book.save("openpyxl-unsaved-values.xlsx")
PY
soffice --headless --convert-to xlsx --outdir "$work/calc" xlsxwriter.xlsx > /dev/null
mv "$work/calc/xlsxwriter.xlsx" libreoffice.xlsx
ssconvert r.csv gnumeric.xlsx
mv "$work/rows.xlsx" pandas.xlsx
# a workbook that may have macros
"${PYTHON:-python3}" -c 'import openpyxl; openpyxl.load_workbook("pandas.xlsx", keep_vba=True).save("openpyxl.xlsm")'
