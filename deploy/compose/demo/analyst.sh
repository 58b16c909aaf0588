#!/bin/sh
# The analyst's part in the demo: the commands of the README, as its operator types them.
#
#   demo-analyst request   generates the key, and writes a request for its certificate
#   demo-analyst serve     installs the certificate, publishes the terms, serves
#   demo-analyst report    writes the report when the round is over
#
# Every step may be repeated. /drop holds the files that the lead and the analyst would send each other by e-mail.
set -eu
umask 077

say() {
  echo "\$ $*" >&2
  "$@"
}

request() {
  if [ ! -f /drop/analyst-certificate.pem ]; then
    say odc-analyst join /drop/analyst.invitation.json --out /drop/analyst-request.odc
  fi
}

serve() {
  say odc-analyst install /drop/analyst-certificate.pem
  if [ "$(odc-analyst collaboration list --json)" = "[]" ]; then
    say odc-analyst collaboration create /drop/terms.toml --before-they-join
  fi
  echo "\$ odc-analyst serve" >&2
  exec odc-analyst serve
}

report() {
  odc-analyst collaboration list
  id=$(odc-analyst collaboration list | cut -d ' ' -f 1)
  say odc-analyst collaboration report "$id" --wait 300
  odc-analyst collaboration report "$id" --json >/drop/report.json
}

case $1 in
  request | serve | report) "$1" ;;
  *)
    echo "demo-analyst: no part '$1'" >&2
    exit 2
    ;;
esac
