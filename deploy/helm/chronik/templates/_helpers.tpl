{{- define "chronik.name" -}}
{{- if contains "chronik" .Release.Name }}{{ .Release.Name | trunc 50 | trimSuffix "-" }}{{ else }}{{ printf "%s-chronik" .Release.Name | trunc 50 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- define "chronik.selector" -}}
app.kubernetes.io/name: chronik
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "chronik.labels" -}}
{{ include "chronik.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{- define "chronik.headless" -}}
{{ include "chronik.name" . }}-nodes
{{- end }}

{{- define "chronik.domain" -}}
{{ include "chronik.headless" . }}.{{ .Release.Namespace }}.svc.{{ .Values.clusterDomain }}
{{- end }}

{{- define "chronik.secret" -}}
{{ .Values.quorumSecret.existingSecret | default (printf "%s-quorum" (include "chronik.name" .)) }}
{{- end }}

{{- /* Every node by its place in the StatefulSet: 0@chronik-0.chronik-nodes...:9093,... */}}
{{- define "chronik.voters" -}}
{{- $root := . -}}
{{- range $index := until (int .Values.replicas) -}}
{{- if $index }},{{ end }}{{ $index }}@{{ include "chronik.name" $root }}-{{ $index }}.{{ include "chronik.domain" $root }}:{{ $root.Values.quorumPort }}
{{- end -}}
{{- end }}

{{- define "chronik.replication" -}}
{{- if .Values.replicationFactor }}{{ .Values.replicationFactor }}{{ else }}{{ min 3 (int .Values.replicas) }}{{ end -}}
{{- end }}

{{- /* KAFKA_LOG_RETENTION_HOURS of log.retention.hours, as brokers read it. */}}
{{- define "chronik.variable" -}}
KAFKA_{{ . | replace "_" "__" | replace "-" "___" | replace "." "_" | upper }}
{{- end }}

{{- /* The admin listener asks for no login. Unless the network is trusted it is on loopback, where only a process in the
container can ask. */}}
{{- define "chronik.probe" -}}
{{- if .root.Values.insecureListeners -}}
httpGet:
  path: /{{ .page }}
  port: admin
{{- else -}}
exec:
  command:
    - /usr/bin/python3
    - -I
    - -c
    - "import urllib.request as r; r.urlopen('http://127.0.0.1:{{ .root.Values.adminPort }}/{{ .page }}', timeout=4)"
{{- end }}
{{- end }}
