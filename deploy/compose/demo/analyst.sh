#!/bin/sh
# The analyst's part in the demo: the commands of the README, as its operator types them.
#
#   demo-analyst request   generates the key, and writes a request for its certificate
#   demo-analyst serve     installs the certificate, publishes the terms, serves
#   demo-analyst report    writes the report when the round is over
#
# With the profile `scale`, where two servers are one analyst:
#
#   demo-analyst settings      makes the secrets of PostgreSQL and S3, and says which address institutions use
#   demo-analyst bucket        makes the bucket
#   demo-analyst second        takes over the identity of the first server, and serves beside it
#   demo-analyst scheduler     gives the steps of a round to those who compute
#   demo-analyst compute       computes
#   demo-analyst scale-report  writes the report
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

SHARED=$ODC_ANALYST_DATA_DIR/shared  # how the records and arrays of several servers are reached

settings() {
  [ ! -f "$SHARED/environment" ] || return 0
  mkdir -p "$SHARED"
  password=$(secret) key=$(secret)
  echo "postgres:5432:odc:odc:$password" >"$SHARED/pgpass"
  hand_over "$password" /secrets/postgres password
  hand_over "S3_ACCESS_KEY=odc-demo S3_SECRET_KEY=$key" /secrets/s3 keys
  cat >"$SHARED/environment.part" <<END
ODC_ANALYST_DATABASE_URL='postgresql+psycopg://odc@postgres/odc?passfile=$SHARED/pgpass'
ODC_ANALYST_BLOB_URL=s3://odc-demo/arrays
ODC_ANALYST_COMPUTE_URL=tcp://scheduler:8786
AWS_ENDPOINT_URL=http://s3:9000
AWS_REGION=us-east-1
AWS_ACCESS_KEY_ID=odc-demo
AWS_SECRET_ACCESS_KEY=$key
END
  echo https://balancer:8443 >/drop/address
  mv "$SHARED/environment.part" "$SHARED/environment"
}

secret() {
  python -c 'import secrets; print(secrets.token_urlsafe(24))'
}

# Leave a secret in the volume of a server, whose user is another.
hand_over() {
  chmod 755 "$2"
  echo "$1" >"$2/$3"
  chmod 644 "$2/$3"
}

use_shared() {
  if [ -f "$SHARED/environment" ]; then
    set -a
    . "$SHARED/environment"
    set +a
  fi
}

bucket() {
  python - <<'END'
import os
import urllib.request
from datetime import timedelta

import obstore
from obstore.store import S3Store

config = {name.lower(): value for name, value in os.environ.items() if name.startswith("AWS_")}
plain = {"allow_http": True, "allow_invalid_certificates": True}  # no TLS, and the image has no authority
store = S3Store("odc-demo", config=config, client_options=plain)
address = obstore.sign(store, "PUT", "", timedelta(minutes=1))
urllib.request.urlopen(urllib.request.Request(address, method="PUT"), timeout=30)  # again is fine
END
}

serve() {
  say odc-analyst install /drop/analyst-certificate.pem
  if [ "$(odc-analyst collaboration list --json)" = "[]" ]; then
    say odc-analyst collaboration create /drop/terms.toml --before-they-join
  fi
  if [ -f "$SHARED/environment" ]; then
    cp "$ODC_ANALYST_DATA_DIR/identity/root.pem" /drop/root.pem  # the balancer asks both whether they are ready
  fi
  run_server
}

second() {
  if [ ! -d "$SHARED" ]; then
    say cp -R /first/identity "$ODC_ANALYST_DATA_DIR/"
    cp -R /first/shared "$SHARED.part"
    mv "$SHARED.part" "$SHARED"
    use_shared
  fi
  run_server
}

scheduler() {
  exec python -m distributed.cli.dask_scheduler --port 8786 --no-dashboard
}

compute() {
  SHARED=/first/shared
  use_shared
  echo "\$ odc-analyst compute-worker" >&2
  exec odc-analyst compute-worker
}

run_server() {
  echo "\$ odc-analyst serve" >&2
  exec odc-analyst serve
}

report() {
  if [ ! -f "$SHARED/environment" ]; then
    write_report
  fi  # or else `scale-report` has written it
}

write_report() {
  odc-analyst collaboration list
  id=$(odc-analyst collaboration list | cut -d ' ' -f 1)
  say odc-analyst collaboration report "$id" --wait 300
  odc-analyst collaboration report "$id" --json >/drop/report.json
}

use_shared
case $1 in
  request | serve | report | settings | bucket | second | scheduler | compute) "$1" ;;
  scale-report) write_report ;;
  *)
    echo "demo-analyst: no part '$1'" >&2
    exit 2
    ;;
esac
