{{- define "postroom.name" -}}
{{- if contains .Chart.Name .Release.Name }}{{ .Release.Name | trunc 40 | trimSuffix "-" }}{{ else }}{{ printf "%s-%s" .Release.Name .Chart.Name | trunc 40 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- define "postroom.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "postroom.labels" -}}
{{ include "postroom.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- define "postroom.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{- define "postroom.secret" -}}
{{ if .Values.secret.values }}{{ include "postroom.name" . }}{{ else }}{{ required "Set secret.existing or secret.values." .Values.secret.existing }}{{ end }}
{{- end }}

{{- define "postroom.serviceAccount" -}}
{{ .Values.serviceAccount.name | default (ternary (include "postroom.name" .) "default" .Values.serviceAccount.create) }}
{{- end }}

{{/* What all pods have in common. */}}
{{- define "postroom.pod" -}}
# Otherwise Kubernetes sets POSTROOM_PORT and others for a service of this name, and Postroom rejects them.
enableServiceLinks: false
automountServiceAccountToken: false
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 10001
  fsGroup: 10001
  seccompProfile: {type: RuntimeDefault}
{{- with .Values.image.pullSecrets }}
imagePullSecrets:
{{- range . }}
  - name: {{ . }}
{{- end }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.affinity }}
affinity: {{- toYaml . | nindent 2 }}
{{- end }}
volumes:
  - {name: home, emptyDir: {}}
  - {name: temporary, emptyDir: {sizeLimit: {{ .Values.temporarySizeLimit }}}}
{{- end }}

{{/* What all containers have in common. */}}
{{- define "postroom.container" -}}
image: {{ include "postroom.image" . }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
volumeMounts:
  - {name: home, mountPath: /var/lib/postroom}
  - {name: temporary, mountPath: /tmp}
{{- end }}

{{/* The pods of a deployment: those that run the same settings restart together when one of them changes. */}}
{{- define "postroom.podMetadata" -}}
annotations:
  checksum/settings: {{ toJson (list .Values.settings .Values.secret.values) | sha256sum }}
{{- end }}

{{- define "postroom.environment" -}}
- configMapRef: {name: {{ include "postroom.name" . }}}
- secretRef: {name: {{ include "postroom.secret" . }}}
{{- end }}
