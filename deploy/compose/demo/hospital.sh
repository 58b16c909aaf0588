#!/bin/sh
# A hospital's part in the demo: the commands of the README in the same order, as a person would type them.
#
#   demo-hospital founding PARTY...   the lead: root key, invitations, draft of the terms
#   demo-hospital approval            the lead: the analyst's certificate
#   demo-hospital lead | member       join, read and sign the terms, send once, receive once, predict
#
# Every step may be repeated, so a container that was stopped anywhere starts from the top and continues.
# The hospital's own volume is the state directory of odc, with its keys. /desk has the table, and the results
# that the summary reads. /drop (for the lead: /drops/NAME) holds the files that would be sent by e-mail.
set -eu
umask 077
export ODC_PASSPHRASE_FILE="$ODC_HOME/passphrase"
PATIENCE_S=1800
LONGEST_PAUSE_S=10

# Show a command, then run it.
say() {
  echo "\$ $*" >&2
  "$@"
}

# Run a command, and repeat it while its exit code says "not now" (6) or "the analyst cannot be reached" (7).
patiently() {
  echo "\$ $*" >&2
  said=$(mktemp)
  end=$(($(date +%s) + PATIENCE_S))
  pause=1  # longer each time, because the others need the processor as well
  while code=0; "$@" 2>"$said" || code=$?; [ "$code" = 6 ] || [ "$code" = 7 ]; do
    if grep -q 'the round failed' "$said" || [ "$(date +%s)" -gt "$end" ]; then
      break
    fi
    sleep "$pause"
    pause=$((pause < LONGEST_PAUSE_S ? pause + 1 : pause))
  done
  cat "$said" >&2
  return "$code"
}

founding() {
  [ -f "$ODC_PASSPHRASE_FILE" ] || new_passphrase
  if [ ! -f "$ODC_HOME/membership.json" ]; then
    # with several servers the analyst has told the address of their balancer
    address=$(cat /drops/analyst/address 2>/dev/null || echo https://analyst:8443)
    say odc consortium create "Demo consortium" --analyst "$address" --party "$PARTY" \
      --analyst-invitation /drops/analyst/analyst.invitation.json
  fi
  for party in "$@"; do
    if [ ! -f "/drops/$party/invitation.json" ]; then
      say odc consortium invite "$party" --out "/drops/$party/invitation.json"
    fi
  done
  [ -f /drops/analyst/terms.toml ] || draft "$PARTY" "$@"
}

# In real use a person types the passphrase. A demo has nobody to ask.
new_passphrase() {
  python -c 'import secrets; print(secrets.token_urlsafe(24))' >"$ODC_PASSPHRASE_FILE.part"
  mv "$ODC_PASSPHRASE_FILE.part" "$ODC_PASSPHRASE_FILE"
}

draft() {
  for party in "$@"; do
    set -- "$@" --party "$party"
    shift
  done
  while IFS= read -r word; do
    set -- "$@" "$word"
  done </desk/draft-options
  say odc terms draft /desk/rows.csv "$@" --out /desk/terms.toml --force
  cp /desk/terms.toml /drops/analyst/terms.toml.part
  mv /drops/analyst/terms.toml.part /drops/analyst/terms.toml
}

approval() {
  if [ ! -f /drops/analyst/analyst-certificate.pem ]; then
    say odc consortium approve --request /drops/analyst/analyst-request.odc --host localhost --yes \
      --out /drops/analyst/analyst-certificate.pem
  fi
}

anchor() {
  patiently odc status --json >/tmp/status.json
  grep -q '"anchor_ready": true' /tmp/status.json || patiently odc anchor create
}

round() {
  patiently odc terms show
  patiently odc terms accept
  [ "$1" = member ] || anchor
  patiently odc prepare /desk/rows.csv
  # a demo has nobody to ask; `odc prepare` has said what leaves, and what is lost
  rows=$(wc -l </desk/rows.csv)
  if [ "$rows" -gt 1 ]; then
    patiently odc contribute --yes --accept-signal-loss
  else
    patiently odc contribute --yes --consumer
  fi
  patiently odc receive
  say odc predict /desk/hold-out.csv --out "$ODC_HOME/predictions.csv" --force
  evaluate
  say odc status
  cp "$ODC_HOME/predictions.csv" /desk/predictions.csv
  odc status --json >/desk/status.json
  odc receive --json >/desk/received.json
}

# Compare with a model of our own rows alone. A hospital without rows keeps none back: exit code 3.
evaluate() {
  code=0
  say odc evaluate /desk/rows.csv --send || code=$?
  case $code in
    0) odc evaluate /desk/rows.csv --send --json >/desk/evaluated.json ;;
    3) : >/desk/evaluated.json ;;
    *) return "$code" ;;
  esac
}

part=$1
shift
case $part in
  founding) founding "$@" ;;
  approval) approval ;;
  lead)
    patiently odc consortium approve --watch "$PATIENCE_S"
    round lead
    ;;
  member)
    patiently odc join /drop/invitation.json --wait "$PATIENCE_S"
    round member
    ;;
  *)
    echo "demo-hospital: no part '$part'" >&2
    exit 2
    ;;
esac
