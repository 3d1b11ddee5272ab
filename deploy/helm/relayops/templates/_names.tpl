{{- define "relayops.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{/* At most 50 characters, so that the longest suffix still fits a name. */}}
{{- define "relayops.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 50 | trimSuffix "-" -}}
{{- else if contains (include "relayops.name" .) .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name (include "relayops.name" .) | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/* What tells this installation's pods from others. Never changed: selectors cannot be. */}}
{{- define "relayops.selector" -}}
app.kubernetes.io/name: {{ include "relayops.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "relayops.labels" -}}
{{ include "relayops.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{- define "relayops.image" -}}
{{- $repository := required "image.repository: build deploy/Dockerfile, push it to a registry of yours and name it" .Values.image.repository -}}
{{- if .Values.image.digest -}}
{{- printf "%s@%s" $repository .Values.image.digest -}}
{{- else -}}
{{- printf "%s:%s" $repository (default .Chart.AppVersion .Values.image.tag) -}}
{{- end -}}
{{- end -}}

{{- define "relayops.secretName" -}}
{{- required "existingSecret: make a Secret with RELAYOPS_DATABASE_URL, RELAYOPS_AUTH_JWT_SECRET and RELAYOPS_SECRETS_KEY and name it" .Values.existingSecret -}}
{{- end -}}

{{/* A number from a values file is a float: 5000000 would be written 5e+06. */}}
{{- define "relayops.text" -}}
{{- if and (kindIs "float64" .) (eq (floor .) .) -}}{{ int64 . }}{{- else -}}{{ . }}{{- end -}}
{{- end -}}
