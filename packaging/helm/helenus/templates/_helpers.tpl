{{- define "helenus.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "helenus.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" -}}
{{- else if contains (include "helenus.name" .) .Release.Name -}}
{{- .Release.Name | trunc 63 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name (include "helenus.name" .) | trunc 63 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "helenus.selectorLabels" -}}
app.kubernetes.io/name: {{ include "helenus.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "helenus.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{ include "helenus.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end -}}

{{- define "helenus.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "helenus.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- define "helenus.image" -}}
{{- printf "%s:%s" .Values.image.repository (default .Chart.AppVersion .Values.image.tag) -}}
{{- end -}}

{{- define "helenus.tokenSecretName" -}}
{{- default (printf "%s-admin-token" (include "helenus.fullname" .)) .Values.secrets.adminToken.name -}}
{{- end -}}

{{- define "helenus.readTokenSecretName" -}}
{{- default (printf "%s-read-token" (include "helenus.fullname" .)) .Values.secrets.readToken.name -}}
{{- end -}}

{{/* The headless service by which pods find each other. */}}
{{- define "helenus.proxiesServiceName" -}}
{{- printf "%s-proxies" (include "helenus.fullname" .) -}}
{{- end -}}

{{/* Not empty if pods find each other by it. */}}
{{- define "helenus.findsProxies" -}}
{{- $listen := default dict .Values.settings.listen -}}
{{- if and .Values.proxyDiscovery.enabled (not (hasKey $listen "proxies")) (not (hasKey $listen "proxies_dns")) -}}
yes
{{- end -}}
{{- end -}}

{{/* What the operator has set, and over it what the chart knows itself. */}}
{{- define "helenus.settings" -}}
{{- $settings := deepCopy .Values.settings -}}
{{- $any := ternary "[::]" "0.0.0.0" (eq .Values.ipFamily "IPv6") -}}
{{- $listen := dict "address" (printf "%s:9042" $any) -}}
{{- if include "helenus.findsProxies" . -}}
{{- $_ := set $listen "proxies_dns" (printf "%s.%s.svc:9042" (include "helenus.proxiesServiceName" .) .Release.Namespace) -}}
{{- end -}}
{{- with .Values.clientTls -}}
{{- if .secretName -}}
{{- $tls := dict "certificate" "/etc/helenus/client-tls/tls.crt" "key" "/etc/helenus/client-tls/tls.key" -}}
{{- if .requireClientCertificate -}}
{{- $_ := set $tls "client_ca" "/etc/helenus/client-tls/ca.crt" -}}
{{- end -}}
{{- $_ := set $listen "tls" $tls -}}
{{- end -}}
{{- end -}}
{{- if .Values.workersFromCpuRequest -}}
{{- $cpu := dig "requests" "cpu" "" .Values.resources | toString -}}
{{- $cores := 0 -}}
{{- if hasSuffix "m" $cpu -}}
{{- $cores = div (trimSuffix "m" $cpu | int) 1000 -}}
{{- else if $cpu -}}
{{- $cores = $cpu | float64 | floor | int -}}
{{- end -}}
{{- if and $cpu (not (hasKey (default dict $settings.listen) "workers")) -}}
{{- $_ := set $listen "workers" (max 1 $cores) -}}
{{- end -}}
{{- end -}}
{{- $cluster := dict -}}
{{- if .Values.secrets.cassandraPassword.name -}}
{{- $_ := set $cluster "password_file" "/etc/helenus/cassandra/password" -}}
{{- end -}}
{{- with .Values.nodeTls -}}
{{- if .secretName -}}
{{- $tls := dict "ca" "/etc/helenus/node-tls/ca.crt" -}}
{{- if .hasCertificate -}}
{{- $_ := set $tls "certificate" "/etc/helenus/node-tls/tls.crt" -}}
{{- $_ := set $tls "key" "/etc/helenus/node-tls/tls.key" -}}
{{- end -}}
{{- if .serverName -}}{{- $_ := set $tls "server_name" .serverName -}}{{- end -}}
{{- if ne .verifyNames nil -}}{{- $_ := set $tls "verify_names" .verifyNames -}}{{- end -}}
{{- $_ := set $cluster "tls" $tls -}}
{{- end -}}
{{- end -}}
{{- $chart := dict "listen" $listen "cluster" $cluster -}}
{{- $_ := set $chart "admin" (dict "address" (printf "%s:%d" $any (int .Values.admin.port)) "token_file" "/etc/helenus/admin/token" "read_token_file" "/etc/helenus/read/token") -}}
{{- if .Values.secrets.reports.name -}}
{{- $_ := set $chart "assignment" (dict "reports_secret_file" "/etc/helenus/reports/secret") -}}
{{- end -}}
{{- $all := mergeOverwrite $settings $chart -}}
{{/* JSON's whole numbers are floats, which TOML would show. */}}
{{- include "helenus.toml" (dict "table" $all "path" "") -}}
{{- end -}}

{{/* A table of settings as TOML: first its own keys, then the tables in it. */}}
{{- define "helenus.toml" -}}
{{- $path := .path -}}
{{- range $key := keys .table | sortAlpha -}}
{{- $value := index $.table $key -}}
{{- if not (or (kindIs "map" $value) (kindIs "invalid" $value)) }}
{{ $key }} = {{ include "helenus.tomlValue" $value }}
{{- end -}}
{{- end -}}
{{- range $key := keys .table | sortAlpha -}}
{{- $value := index $.table $key -}}
{{- if kindIs "map" $value -}}
{{- $inner := $key -}}
{{- if $path }}{{ $inner = printf "%s.%s" $path $key }}{{ end }}
{{- if $value }}

[{{ $inner }}]
{{- include "helenus.toml" (dict "table" $value "path" $inner) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "helenus.tomlValue" -}}
{{- if kindIs "slice" . -}}
[{{ range $index, $value := . }}{{ if $index }}, {{ end }}{{ include "helenus.tomlValue" $value }}{{ end }}]
{{- else if kindIs "float64" . -}}
{{- if eq (floor .) . -}}{{ printf "%.0f" . }}{{- else -}}{{ . }}{{- end -}}
{{- else if kindIs "string" . -}}
{{ toJson . }}
{{- else -}}
{{ . }}
{{- end -}}
{{- end -}}
