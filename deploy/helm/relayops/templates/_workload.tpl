{{/* What every pod has in common. */}}
{{- define "relayops.podSpec" -}}
# Kubernetes would set RELAYOPS_PORT and others for a Service of this name; RelayOps does not start with a RELAYOPS_ variable that it does not know.
enableServiceLinks: false
# Nothing here talks to Kubernetes.
automountServiceAccountToken: false
{{- with .Values.serviceAccountName }}
serviceAccountName: {{ . }}
{{- end }}
{{- with .Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 10001
  seccompProfile:
    type: RuntimeDefault
{{- end -}}

{{- define "relayops.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end -}}

{{/* One role as a Deployment. Argument: root, role. */}}
{{- define "relayops.workload" -}}
{{- $root := .root -}}
{{- $role := .role -}}
{{- $values := index $root.Values $role -}}
{{- $timeoutMs := int64 (default 20000 (index $root.Values.config "RELAYOPS_SHUTDOWN_TIMEOUT_MS")) -}}
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ include "relayops.fullname" $root }}-{{ $role }}
  labels:
    {{- include "relayops.labels" $root | nindent 4 }}
    app.kubernetes.io/component: {{ $role }}
spec:
  {{- if not $values.autoscaling.enabled }}
  replicas: {{ $values.replicas }}
  {{- end }}
  revisionHistoryLimit: 5
  strategy:
    type: RollingUpdate
    rollingUpdate:
      maxSurge: 1
      maxUnavailable: 0
  selector:
    matchLabels:
      {{- include "relayops.selector" $root | nindent 6 }}
      app.kubernetes.io/component: {{ $role }}
  template:
    metadata:
      labels:
        {{- include "relayops.labels" $root | nindent 8 }}
        app.kubernetes.io/component: {{ $role }}
      annotations:
        checksum/config: {{ include (print $root.Template.BasePath "/configmap.yaml") $root | sha256sum }}
        {{- with $root.Values.podAnnotations }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
    spec:
      {{- include "relayops.podSpec" $root | nindent 6 }}
      # The pause before the signal, shutdown.timeoutMs, and 10 s to commit the last results.
      terminationGracePeriodSeconds: {{ add $root.Values.preStopSeconds (div (add $timeoutMs 999) 1000) 10 }}
      {{- if $root.Values.topologySpread.enabled }}
      topologySpreadConstraints:
        {{- range list "topology.kubernetes.io/zone" "kubernetes.io/hostname" }}
        - maxSkew: 1
          topologyKey: {{ . }}
          whenUnsatisfiable: ScheduleAnyway
          labelSelector:
            matchLabels:
              {{- include "relayops.selector" $root | nindent 14 }}
              app.kubernetes.io/component: {{ $role }}
          matchLabelKeys: [pod-template-hash]
        {{- end }}
      {{- end }}
      containers:
        - name: relayops
          image: {{ include "relayops.image" $root | quote }}
          imagePullPolicy: {{ $root.Values.image.pullPolicy }}
          args: [start]
          env:
            - name: RELAYOPS_ROLE
              value: {{ $role }}
            {{- with $root.Values.extraEnv }}
            {{- toYaml . | nindent 12 }}
            {{- end }}
          envFrom:
            - configMapRef:
                name: {{ include "relayops.fullname" $root }}
            - secretRef:
                name: {{ include "relayops.secretName" $root }}
          ports:
            {{- if eq $role "api" }}
            - name: http
              containerPort: 8080
            {{- end }}
            - name: admin
              containerPort: 8090
          # It listens once the schema is up to date, which may take its time where no Job has migrated before.
          startupProbe:
            httpGet: { path: /livez, port: admin }
            periodSeconds: 2
            timeoutSeconds: 5
            failureThreshold: 150
          livenessProbe:
            httpGet: { path: /livez, port: admin }
            periodSeconds: 10
            timeoutSeconds: 5
            failureThreshold: 6
          # The probe itself gives the database 2 s.
          readinessProbe:
            httpGet: { path: /readyz, port: admin }
            periodSeconds: 5
            timeoutSeconds: 4
            failureThreshold: 2
          {{- if $root.Values.preStopSeconds }}
          lifecycle:
            preStop:
              exec:
                command: [sleep, {{ $root.Values.preStopSeconds | quote }}]
          {{- end }}
          {{- with $values.resources }}
          resources:
            {{- toYaml . | nindent 12 }}
          {{- end }}
          securityContext:
            {{- include "relayops.containerSecurity" $root | nindent 12 }}
          volumeMounts:
            - name: tmp
              mountPath: /tmp
      volumes:
        - name: tmp
          emptyDir:
            sizeLimit: 64Mi
{{- end -}}
