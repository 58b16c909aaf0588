{{- define "odc.labels" -}}
app.kubernetes.io/name: odc-analyst
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- define "odc.selector" -}}
app.kubernetes.io/name: odc-analyst
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "odc.image" -}}
{{ .Values.image.repository }}{{ if .Values.image.digest }}@{{ .Values.image.digest }}{{ else }}:{{ .Values.image.tag | default .Chart.AppVersion }}{{ end }}
{{- end }}

{{- /* Whether records and arrays are outside of the pod, so that nothing in it has to stay. */ -}}
{{- define "odc.outside" -}}
{{- if and .Values.database.existingSecret .Values.blobs.url }}yes{{ end }}
{{- end }}

{{- /* A setting as the process reads it: Helm reads a whole number of a file as 6.8719476736e+10. */ -}}
{{- define "odc.word" -}}
{{- if and (kindIs "float64" .) (eq (floor .) .) }}{{ printf "%.0f" . }}{{ else }}{{ . }}{{ end }}
{{- end }}

{{- define "odc.check" -}}
{{- if not .Values.identity.existingSecret }}
{{- fail "identity.existingSecret is not set: make a Secret of key.pem, certificate.pem and root.pem, as docs/deploy-kubernetes.md says" }}
{{- end }}
{{- if and (gt (int .Values.replicas) 1) (not (include "odc.outside" .)) }}
{{- fail "replicas is above 1: then database.existingSecret and blobs.url have to be set, for no volume can serve two" }}
{{- end }}
{{- if and (hasPrefix "file://" (.Values.blobs.url | default "")) (not .Values.extraVolumeMounts) }}
{{- fail "blobs.url is a directory that nothing is mounted at: name its volume in extraVolumes and extraVolumeMounts" }}
{{- end }}
{{- if and .Values.metrics.enabled .Values.networkPolicy.enabled (not .Values.networkPolicy.metricsFrom) }}
{{- fail "networkPolicy.metricsFrom is empty, and a policy of nobody lets everybody ask: name who may" }}
{{- end }}
{{- if and .Values.metrics.serviceMonitor.enabled (not .Values.metrics.enabled) }}
{{- fail "metrics.serviceMonitor.enabled is set without metrics.enabled: there would be nothing to ask" }}
{{- end }}
{{- range $name, $value := dict "DATA_DIR" "persistence" "PORT" "service.port" "DATABASE_URL" "database.existingSecret" "BLOB_URL" "blobs.url" "METRICS_PORT" "metrics.port" "METRICS_HOST" "metrics.enabled" "METRICS_TOKEN_FILE" "metrics.existingSecret" }}
{{- if hasKey ($.Values.settings | default dict) (print "ODC_ANALYST_" $name) }}
{{- fail (printf "settings.ODC_ANALYST_%s is set by the chart: use the value %s" $name $value) }}
{{- end }}
{{- end }}
{{- if and .Values.metrics.enabled (not .Values.metrics.existingSecret) }}
{{- fail "metrics.enabled is set without metrics.existingSecret: whoever asks for metrics has to show its token" }}
{{- end }}
{{- if and .Values.metrics.serviceMonitor.enabled (not .Values.metrics.serviceMonitor.serverName) }}
{{- fail "metrics.serviceMonitor.serverName is not set: it is the name in the analyst's certificate" }}
{{- end }}
{{- end }}

{{- define "odc.environment" -}}
- {name: ODC_ANALYST_DATA_DIR, value: /var/lib/odc}
- {name: ODC_ANALYST_PORT, value: "8443"}
{{- if .Values.database.existingSecret }}
- name: ODC_ANALYST_DATABASE_URL
  valueFrom: {secretKeyRef: {name: {{ .Values.database.existingSecret }}, key: url}}
{{- end }}
{{- if .Values.blobs.url }}
- {name: ODC_ANALYST_BLOB_URL, value: {{ .Values.blobs.url | quote }}}
{{- end }}
{{- if .Values.metrics.enabled }}
- {name: ODC_ANALYST_METRICS_PORT, value: {{ .Values.metrics.port | quote }}}
- {name: ODC_ANALYST_METRICS_HOST, value: "0.0.0.0"}
- {name: ODC_ANALYST_METRICS_TOKEN_FILE, value: /run/secrets/odc-metrics/token}
{{- end }}
{{- range $name, $value := .Values.settings }}
- {name: {{ $name }}, value: {{ include "odc.word" $value | quote }}}
{{- end }}
{{- end }}

{{- define "odc.container" -}}
image: {{ include "odc.image" . }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
env:
  {{- include "odc.environment" . | nindent 2 }}
{{- if .Values.blobs.existingSecret }}
envFrom:
  - secretRef: {name: {{ .Values.blobs.existingSecret }}}
{{- end }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
volumeMounts:
  - {name: state, mountPath: /var/lib/odc}
  - {name: identity, mountPath: /var/lib/odc/identity, readOnly: true}
  - {name: tmp, mountPath: /tmp}
  {{- if .Values.metrics.enabled }}
  - {name: metrics-token, mountPath: /run/secrets/odc-metrics, readOnly: true}
  {{- end }}
  {{- with .Values.extraVolumeMounts }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end }}

{{- define "odc.pod" -}}
automountServiceAccountToken: false
enableServiceLinks: false
{{- with .Values.imagePullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 2 }}
{{- end }}
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 10001
  fsGroup: 10001
  fsGroupChangePolicy: OnRootMismatch
  seccompProfile: {type: RuntimeDefault}
{{- with .Values.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
volumes:
  - name: state
    {{- if include "odc.outside" . }}
    emptyDir: {}
    {{- else }}
    persistentVolumeClaim: {claimName: {{ .Values.persistence.existingClaim | default .Release.Name }}}
    {{- end }}
  - name: identity
    secret: {secretName: {{ .Values.identity.existingSecret }}, defaultMode: 0440}
  - name: tmp
    emptyDir: {sizeLimit: 256Mi}
  {{- if .Values.metrics.enabled }}
  - name: metrics-token
    secret: {secretName: {{ .Values.metrics.existingSecret }}, defaultMode: 0440}
  {{- end }}
  {{- with .Values.extraVolumes }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end }}
