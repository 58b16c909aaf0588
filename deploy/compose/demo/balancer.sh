#!/bin/sh
# The balancer's part in the demo: deploy/balancer/haproxy.cfg, with the names of the demo's servers.
set -eu
sed -e 's|/etc/haproxy/odc-root.pem|/drop/root.pem|' \
  -e 's|10.0.0.11:8443|analyst:8443|' -e 's|10.0.0.12:8443|analyst-2:8443|' -e 's|analyst.example|balancer|' \
  -e 's|default-server check|default-server resolvers engine init-addr none check|' \
  /etc/haproxy/odc.cfg >/tmp/haproxy.cfg
# a container that starts again may have another address
printf '\nresolvers engine\n    nameserver dns 127.0.0.11:53\n' >>/tmp/haproxy.cfg
exec haproxy -W -db -f /tmp/haproxy.cfg
