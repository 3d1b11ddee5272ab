// Generated from docs/openapi.json by `npm run docs`. Do not edit.
export interface paths {
    "/v1/api-keys": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** List API keys, newest first, with those that have ended */
        get: operations["getApiKeys"];
        put?: never;
        /** Make an API key; it is shown once */
        post: operations["postApiKeys"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/api-keys/{apiKeyId}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post?: never;
        /** Revoke an API key */
        delete: operations["deleteApiKeysApiKeyId"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/api-keys/{apiKeyId}/rotate": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Replace an API key; the old one goes on for the overlap */
        post: operations["postApiKeysApiKeyIdRotate"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/auth/login": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Exchange e-mail and password for an access token and a refresh token */
        post: operations["postAuthLogin"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/auth/logout": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * End all sessions of the user of a refresh token
         * @description Access tokens end at once in this process and within auth.keyCacheMs in others.
         */
        post: operations["postAuthLogout"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/auth/password-reset": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Set a new password by a reset token
         * @description Ends all sessions of the user. Log in afterwards.
         */
        post: operations["postAuthPasswordReset"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/auth/refresh": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Exchange a refresh token, once, for new tokens
         * @description A token that comes a second time ends all sessions of its user.
         */
        post: operations["postAuthRefresh"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/deliveries": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List deliveries
         * @description Newest event first; with state pending or in_progress, the next due first.
         */
        get: operations["getDeliveries"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/deliveries/{deliveryId}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Get a delivery */
        get: operations["getDeliveriesDeliveryId"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/deliveries/{deliveryId}/attempts": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** All attempts of a delivery, in order */
        get: operations["getDeliveriesDeliveryIdAttempts"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/deliveries/{deliveryId}/cancel": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Cancel an open delivery */
        post: operations["postDeliveriesDeliveryIdCancel"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/deliveries/{deliveryId}/replay": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Send an ended delivery again */
        post: operations["postDeliveriesDeliveryIdReplay"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/endpoints": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** List endpoints, newest first */
        get: operations["getEndpoints"];
        put?: never;
        /** Make an endpoint; its signing secret is shown once */
        post: operations["postEndpoints"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/endpoints/{endpointId}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Get an endpoint */
        get: operations["getEndpointsEndpointId"];
        put?: never;
        post?: never;
        /** Delete an endpoint; its open deliveries are cancelled */
        delete: operations["deleteEndpointsEndpointId"];
        options?: never;
        head?: never;
        /** Change settings of an endpoint */
        patch: operations["patchEndpointsEndpointId"];
        trace?: never;
    };
    "/v1/endpoints/{endpointId}/disable": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Switch an endpoint off; its deliveries wait */
        post: operations["postEndpointsEndpointIdDisable"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/endpoints/{endpointId}/enable": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Switch an endpoint on again */
        post: operations["postEndpointsEndpointIdEnable"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/endpoints/{endpointId}/pause": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Let the deliveries of an endpoint wait */
        post: operations["postEndpointsEndpointIdPause"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/endpoints/{endpointId}/replay": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Send an endpoint's failed and dead deliveries again, since a time */
        post: operations["postEndpointsEndpointIdReplay"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/endpoints/{endpointId}/resume": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Go on with the deliveries of an endpoint */
        post: operations["postEndpointsEndpointIdResume"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/endpoints/{endpointId}/rotate-secret": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Replace the signing secret, shown once; old ones sign beside it for the overlap */
        post: operations["postEndpointsEndpointIdRotateSecret"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/endpoints/{endpointId}/secrets": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** List when the signing secrets were made and when they end */
        get: operations["getEndpointsEndpointIdSecrets"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/endpoints/{endpointId}/secrets/current": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Read the newest signing secret; each reading is logged */
        get: operations["getEndpointsEndpointIdSecretsCurrent"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/endpoints/{endpointId}/subscriptions": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** List what an endpoint subscribes to, newest first */
        get: operations["getEndpointsEndpointIdSubscriptions"];
        put?: never;
        /** Subscribe an endpoint to event types */
        post: operations["postEndpointsEndpointIdSubscriptions"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/endpoints/{endpointId}/subscriptions/{subscriptionId}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post?: never;
        /** End a subscription */
        delete: operations["deleteEndpointsEndpointIdSubscriptionsSubscriptionId"];
        options?: never;
        head?: never;
        /** Change the pattern or the filter of a subscription */
        patch: operations["patchEndpointsEndpointIdSubscriptionsSubscriptionId"];
        trace?: never;
    };
    "/v1/endpoints/{endpointId}/test-event": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Send a test event to this endpoint alone
         * @description It goes the whole way, whatever the endpoint subscribes to.
         */
        post: operations["postEndpointsEndpointIdTestEvent"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/events": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** List events, newest first */
        get: operations["getEvents"];
        put?: never;
        /**
         * Send an event
         * @description Native JSON, or a CloudEvent in structured (`application/cloudevents+json`) or binary mode (`ce-` headers). Answered after the commit. The header `Idempotency-Replayed: true` marks the answer to a repeat.
         */
        post: operations["postEvents"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/events/batch": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Send many events
         * @description Each event is accepted or rejected on its own. Also takes `application/cloudevents-batch+json`.
         */
        post: operations["postEventsBatch"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/events/{eventId}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Get an event */
        get: operations["getEventsEventId"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/events/{eventId}/payload": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Get an event's payload, byte for byte */
        get: operations["getEventsEventIdPayload"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/me": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Who the credential belongs to */
        get: operations["getMe"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/me/password": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Change one's own password
         * @description Ends all sessions of the user. The answer is a new one.
         */
        post: operations["postMePassword"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/replays": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** List replay jobs, newest first */
        get: operations["getReplays"];
        put?: never;
        /**
         * Send ended deliveries again, by filter
         * @description A durable job: it survives restarts and can be cancelled. With dryRun it only counts.
         */
        post: operations["postReplays"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/replays/{jobId}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Get a replay job's progress */
        get: operations["getReplaysJobId"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/replays/{jobId}/cancel": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Cancel a running replay job */
        post: operations["postReplaysJobIdCancel"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/signup": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Make a tenant and its first owner from a bootstrap token */
        post: operations["postSignup"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/stats": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Bounded counts of a window */
        get: operations["getStats"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/tenant": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** The tenant of the credential */
        get: operations["getTenant"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        /** Rename the tenant */
        patch: operations["patchTenant"];
        trace?: never;
    };
    "/v1/users": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** List users, newest first */
        get: operations["getUsers"];
        put?: never;
        /** Add a user */
        post: operations["postUsers"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/users/{userId}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** One user */
        get: operations["getUsersUserId"];
        put?: never;
        post?: never;
        /**
         * Delete a user
         * @description Ends its sessions and frees its e-mail address. What it did keeps its name; API keys that it made go on.
         */
        delete: operations["deleteUsersUserId"];
        options?: never;
        head?: never;
        /**
         * Change the role of a user, disable or enable it
         * @description A change ends all sessions of the user.
         */
        patch: operations["patchUsersUserId"];
        trace?: never;
    };
    "/v1/users/{userId}/password-reset": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Make a token by which a user sets a new password; it is shown once */
        post: operations["postUsersUserIdPasswordReset"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
}
export type webhooks = Record<string, never>;
export interface components {
    schemas: never;
    responses: never;
    parameters: never;
    requestBodies: never;
    headers: never;
    pathItems: never;
}
export type $defs = Record<string, never>;
export interface operations {
    getApiKeys: {
        parameters: {
            query?: {
                /** @description Rows on a page. */
                limit?: number;
                /** @description `nextCursor` of the page before. */
                cursor?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Default Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        data: {
                            apiKeyId: string;
                            /** Format: date-time */
                            createdAt: string;
                            createdBy: string;
                            expiresAt: string | null;
                            /** @description Exact to about a minute. */
                            lastUsedAt: string | null;
                            name: string;
                            /** @description How the key begins. */
                            prefix: string;
                            revokedAt: string | null;
                            scopes: ("events:write" | "events:read" | "endpoints:read" | "endpoints:write" | "endpoints:secrets" | "deliveries:read" | "deliveries:write" | "keys:read" | "keys:write" | "users:read" | "users:write" | "stats:read")[];
                        }[];
                        /** @description Where the next page begins; null on the last one. */
                        nextCursor: string | null;
                    };
                };
            };
            /** @description A problem document (RFC 9457); docs/errors.md lists the codes. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": {
                        [key: string]: unknown;
                    };
                };
            };
        };
    };
    postApiKeys: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": {
                    expiresAt?: string | null;
                    name: string;
                    scopes: ("events:write" | "events:read" | "endpoints:read" | "endpoints:write" | "endpoints:secrets" | "deliveries:read" | "deliveries:write" | "keys:read" | "keys:write" | "users:read" | "users:write" | "stats:read")[];
                };
            };
        };
        responses: {
            /** @description Default Response */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        apiKey: {
                            apiKeyId: string;
                            /** Format: date-time */
                            createdAt: string;
                            createdBy: string;
                            expiresAt: string | null;
                            /** @description Exact to about a minute. */
                            lastUsedAt: string | null;
                            name: string;
                            /** @description How the key begins. */
                            prefix: string;
                            revokedAt: string | null;
                            scopes: ("events:write" | "events:read" | "endpoints:read" | "endpoints:write" | "endpoints:secrets" | "deliveries:read" | "deliveries:write" | "keys:read" | "keys:write" | "users:read" | "users:write" | "stats:read")[];
                        };
                        /** @description Shown now and never again. */
                        key: string;
                    };
                };
            };
            /** @description A problem document (RFC 9457); docs/errors.md lists the codes. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": {
                        [key: string]: unknown;
                    };
                };
            };
        };
    };
    deleteApiKeysApiKeyId: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                apiKeyId: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Default Response */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description A problem document (RFC 9457); docs/errors.md lists the codes. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": {
                        [key: string]: unknown;
                    };
                };
            };
        };
    };
    postApiKeysApiKeyIdRotate: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                apiKeyId: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": {
                    /** @description When the new key expires; default: when the old one would have. */
                    expiresAt?: string | null;
                    /** @description How long the old key goes on; default auth.keyRotationOverlapS. */
                    overlapSeconds?: number;
                } | null;
            };
        };
        responses: {
            /** @description Default Response */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        apiKey: {
                            apiKeyId: string;
                            /** Format: date-time */
                            createdAt: string;
                            createdBy: string;
                            expiresAt: string | null;
                            /** @description Exact to about a minute. */
                            lastUsedAt: string | null;
                            name: string;
                            /** @description How the key begins. */
                            prefix: string;
                            revokedAt: string | null;
                            scopes: ("events:write" | "events:read" | "endpoints:read" | "endpoints:write" | "endpoints:secrets" | "deliveries:read" | "deliveries:write" | "keys:read" | "keys:write" | "users:read" | "users:write" | "stats:read")[];
                        };
                        /** @description Shown now and never again. */
                        key: string;
                        /** @description The old key and when it stops. */
                        previous: {
                            apiKeyId: string;
                            /** Format: date-time */
                            expiresAt: string;
                        };
                    };
                };
            };
            /** @description A problem document (RFC 9457); docs/errors.md lists the codes. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": {
                        [key: string]: unknown;
                    };
                };
            };
        };
    };
    postAuthLogin: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": {
                    email: string;
                    password: string;
                };
            };
        };
        responses: {
            /** @description Default Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        accessToken: string;
                        /** @description Life of the access token. */
                        expiresInSeconds: number;
                        /** @description Works once, and gives the next. */
                        refreshToken: string;
                        /** @enum {string} */
                        tokenType: "Bearer";
                    };
                };
            };
            /** @description A problem document (RFC 9457); docs/errors.md lists the codes. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": {
                        [key: string]: unknown;
                    };
                };
            };
        };
    };
    postAuthLogout: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": {
                    refreshToken: string;
                };
            };
        };
        responses: {
            /** @description Default Response */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description A problem document (RFC 9457); docs/errors.md lists the codes. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": {
                        [key: string]: unknown;
                    };
                };
            };
        };
    };
    postAuthPasswordReset: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": {
                    /** @description 12 to 256 characters of any kind. */
                    newPassword: string;
                    resetToken: string;
                };
            };
        };
        responses: {
            /** @description Default Response */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description A problem document (RFC 9457); docs/errors.md lists the codes. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": {
                        [key: string]: unknown;
                    };
                };
            };
        };
    };
    postAuthRefresh: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": {
                    refreshToken: string;
                };
            };
        };
        responses: {
            /** @description Default Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        accessToken: string;
                        /** @description Life of the access token. */
                        expiresInSeconds: number;
                        /** @description Works once, and gives the next. */
                        refreshToken: string;
                        /** @enum {string} */
                        tokenType: "Bearer";
                    };
                };
            };
            /** @description A problem document (RFC 9457); docs/errors.md lists the codes. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": {
                        [key: string]: unknown;
                    };
                };
            };
        };
    };
    getDeliveries: {
        parameters: {
            query?: {
                limit?: number;
                cursor?: string;
                state?: "pending" | "in_progress" | "succeeded" | "failed" | "dead" | "cancelled";
                endpointId?: string;
                eventId?: string;
                /** @description Exact event type. */
                type?: string;
                /** @description Event accepted at or after. Not with pending and in_progress. */
                from?: string;
                /** @description Event accepted before. Not with pending and in_progress. */
                to?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Default Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        data: {
                            /** @description While open: attempts so far, the running one included. Null once it has ended: its attempts are a list of their own. */
                            attempts: number | null;
                            /** Format: date-time */
                            createdAt: string;
                            deliveryId: string;
                            endpointId: string;
                            eventId: string;
                            eventType: string;
                            finishedAt: string | null;
                            /** @description While pending: when it is due. */
                            nextAttemptAt: string | null;
                            /** @description Why it ended without success. */
                            reason: string | null;
                            /** @enum {unknown} */
                            state: "pending" | "in_progress" | "succeeded" | "failed" | "dead" | "cancelled";
                        }[];
                        /** @description Where the next page begins; null on the last one. */
                        nextCursor: string | null;
                    };
                };
            };
            /** @description A problem document (RFC 9457); docs/errors.md lists the codes. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": {
                        [key: string]: unknown;
                    };
                };
            };
        };
    };
    getDeliveriesDeliveryId: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                deliveryId: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Default Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** @description While open: attempts so far, the running one included. Null once it has ended: its attempts are a list of their own. */
                        attempts: number | null;
                        /** Format: date-time */
                        createdAt: string;
                        deliveryId: string;
                        endpointId: string;
                        eventId: string;
                        eventType: string;
                        finishedAt: string | null;
                        /** @description While pending: when it is due. */
                        nextAttemptAt: string | null;
                        /** @description Why it ended without success. */
                        reason: string | null;
                        /** @enum {unknown} */
                        state: "pending" | "in_progress" | "succeeded" | "failed" | "dead" | "cancelled";
                    };
                };
            };
            /** @description A problem document (RFC 9457); docs/errors.md lists the codes. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": {
                        [key: string]: unknown;
                    };
                };
            };
        };
    };
    getDeliveriesDeliveryIdAttempts: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                deliveryId: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Default Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        data: {
                            attemptNumber: number;
                            durationMs: number | null;
                            errorCode: string | null;
                            errorDetail: string | null;
                            httpStatus: number | null;
                            /** @description What a worker reported after its lease had gone to another: kept, never applied. */
                            lateResults: {
                                errorCode: string | null;
                                httpStatus: number | null;
                                /** Format: date-time */
                                observedAt: string;
                                outcome: string;
                                worker: string;
                            }[];
                            nextAttemptAt: string | null;
                            /**
                             * @description `unknown`: the worker vanished or was stopped; the receiver may or may not have the request.
                             * @enum {unknown}
                             */
                            outcome: "success" | "retryable" | "rejected" | "gone" | "redirected" | "unknown";
                            /** Format: date-time */
                            recordedAt: string;
                            /** @description The beginning of the body, as text. */
                            responseBody: string | null;
                            responseHeaders: {
                                [key: string]: string;
                            } | null;
                            startedAt: string | null;
                            worker: string;
                        }[];
                    };
                };
            };
            /** @description A problem document (RFC 9457); docs/errors.md lists the codes. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": {
                        [key: string]: unknown;
                    };
                };
            };
        };
    };
    postDeliveriesDeliveryIdCancel: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                deliveryId: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Default Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** @description While open: attempts so far, the running one included. Null once it has ended: its attempts are a list of their own. */
                        attempts: number | null;
                        /** Format: date-time */
                        createdAt: string;
                        deliveryId: string;
                        endpointId: string;
                        eventId: string;
                        eventType: string;
                        finishedAt: string | null;
                        /** @description While pending: when it is due. */
                        nextAttemptAt: string | null;
                        /** @description Why it ended without success. */
                        reason: string | null;
                        /** @enum {unknown} */
                        state: "pending" | "in_progress" | "succeeded" | "failed" | "dead" | "cancelled";
                    };
                };
            };
            /** @description A problem document (RFC 9457); docs/errors.md lists the codes. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": {
                        [key: string]: unknown;
                    };
                };
            };
        };
    };
    postDeliveriesDeliveryIdReplay: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                deliveryId: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Default Response */
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** @description While open: attempts so far, the running one included. Null once it has ended: its attempts are a list of their own. */
                        attempts: number | null;
                        /** Format: date-time */
                        createdAt: string;
                        deliveryId: string;
                        endpointId: string;
                        eventId: string;
                        eventType: string;
                        finishedAt: string | null;
                        /** @description While pending: when it is due. */
                        nextAttemptAt: string | null;
                        /** @description Why it ended without success. */
                        reason: string | null;
                        /** @enum {unknown} */
                        state: "pending" | "in_progress" | "succeeded" | "failed" | "dead" | "cancelled";
                    };
                };
            };
            /** @description A problem document (RFC 9457); docs/errors.md lists the codes. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": {
                        [key: string]: unknown;
                    };
                };
            };
        };
    };
    getEndpoints: {
        parameters: {
            query?: {
                /** @description Rows on a page. */
                limit?: number;
                /** @description `nextCursor` of the page before. */
                cursor?: string;
                /** @description Deliveries of an endpoint that is not active wait. */
                state?: "active" | "paused" | "disabled";
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Default Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        data: {
                            /** Format: date-time */
                            createdAt: string;
                            /** @description What is in force: the settings above, with the defaults of this installation for null. */
                            effective: {
                                maxConcurrency: number;
                                rateBurst: number | null;
                                ratePerSecond: number | null;
                                retry: {
                                    baseMs: number;
                                    capMs: number;
                                    factor: number;
                                    maxAttempts: number;
                                };
                                timeoutMs: number;
                            };
                            endpointId: string;
                            /** @description Each value is `********` for credentials without the scope endpoints:secrets. */
                            headers: {
                                [key: string]: string;
                            };
                            health: {
                                failingSince: string | null;
                                /** @description Failed attempts since the last success. */
                                failures: number;
                                nextProbeAt: string | null;
                                /**
                                 * @description failing: its last attempt failed. held_back: so many failed in a row that its deliveries wait, and one is sent now and then to see whether it is back.
                                 * @enum {string}
                                 */
                                state: "ok" | "failing" | "held_back";
                            };
                            maxConcurrency: number | null;
                            name: string;
                            rateBurst: number | null;
                            ratePerSecond: number | null;
                            retry: {
                                baseMs: number | null;
                                capMs: number | null;
                                factor: number | null;
                                maxAttempts: number | null;
                            };
                            /**
                             * @description Deliveries of an endpoint that is not active wait.
                             * @enum {string}
                             */
                            state: "active" | "paused" | "disabled";
                            stateReason: string | null;
                            subscriptionCount: number;
                            timeoutMs: number | null;
                            /** Format: date-time */
                            updatedAt: string;
                            /** @description As it is dialled: normalised. */
                            url: string;
                        }[];
                        /** @description Where the next page begins; null on the last one. */
                        nextCursor: string | null;
                    };
                };
            };
            /** @description A problem document (RFC 9457); docs/errors.md lists the codes. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": {
                        [key: string]: unknown;
                    };
                };
            };
        };
    };
    postEndpoints: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": {
                    headers?: {
                        [key: string]: string;
                    } | null;
                    maxConcurrency?: number | null;
                    name?: string | null;
                    /** @description Deliveries wait until the endpoint is resumed. */
                    paused?: boolean;
                    rateBurst?: number | null;
                    ratePerSecond?: number | null;
                    retry?: {
                        baseMs?: number | null;
                        capMs?: number | null;
                        factor?: number | null;
                        maxAttempts?: number | null;
                    } | null;
                    /** @description `whsec_` and the base64 of 24 to 64 bytes. Left out, one is made. */
                    secret?: string;
                    subscriptions?: {
                        /** @description A CEL expression over `event` and `payload`; null lets every event of the type through. */
                        filter?: string | null;
                        /**
                         * @description An event type, a prefix ending in `.*`, or `*`.
                         * @example order.*
                         */
                        pattern: string;
                    }[];
                    timeoutMs?: number | null;
                    /**
                     * @description http or https, to a public address.
                     * @example https://example.com/hooks
                     */
                    url: string;
                };
            };
        };
        responses: {
            /** @description Default Response */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        endpoint: {
                            /** Format: date-time */
                            createdAt: string;
                            /** @description What is in force: the settings above, with the defaults of this installation for null. */
                            effective: {
                                maxConcurrency: number;
                                rateBurst: number | null;
                                ratePerSecond: number | null;
                                retry: {
                                    baseMs: number;
                                    capMs: number;
                                    factor: number;
                                    maxAttempts: number;
                                };
                                timeoutMs: number;
                            };
                            endpointId: string;
                            /** @description Each value is `********` for credentials without the scope endpoints:secrets. */
                            headers: {
                                [key: string]: string;
                            };
                            health: {
                                failingSince: string | null;
                                /** @description Failed attempts since the last success. */
                                failures: number;
                                nextProbeAt: string | null;
                                /**
                                 * @description failing: its last attempt failed. held_back: so many failed in a row that its deliveries wait, and one is sent now and then to see whether it is back.
                                 * @enum {string}
                                 */
                                state: "ok" | "failing" | "held_back";
                            };
                            maxConcurrency: number | null;
                            name: string;
                            rateBurst: number | null;
                            ratePerSecond: number | null;
                            retry: {
                                baseMs: number | null;
                                capMs: number | null;
                                factor: number | null;
                                maxAttempts: number | null;
                            };
                            /**
                             * @description Deliveries of an endpoint that is not active wait.
                             * @enum {string}
                             */
                            state: "active" | "paused" | "disabled";
                            stateReason: string | null;
                            subscriptionCount: number;
                            timeoutMs: number | null;
                            /** Format: date-time */
                            updatedAt: string;
                            /** @description As it is dialled: normalised. */
                            url: string;
                        };
                        /** @description Signs the deliveries. Later only shown to the scope endpoints:secrets. */
                        secret: string;
                        subscriptions: {
                            /** Format: date-time */
                            createdAt: string;
                            endpointId: string;
                            filter: string | null;
                            pattern: string;
                            subscriptionId: string;
                        }[];
                    };
                };
            };
            /** @description A problem document (RFC 9457); docs/errors.md lists the codes. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": {
                        [key: string]: unknown;
                    };
                };
            };
        };
    };
    getEndpointsEndpointId: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                endpointId: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Default Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** Format: date-time */
                        createdAt: string;
                        /** @description What is in force: the settings above, with the defaults of this installation for null. */
                        effective: {
                            maxConcurrency: number;
                            rateBurst: number | null;
                            ratePerSecond: number | null;
                            retry: {
                                baseMs: number;
                                capMs: number;
                                factor: number;
                                maxAttempts: number;
                            };
                            timeoutMs: number;
                        };
                        endpointId: string;
                        /** @description Each value is `********` for credentials without the scope endpoints:secrets. */
                        headers: {
                            [key: string]: string;
                        };
                        health: {
                            failingSince: string | null;
                            /** @description Failed attempts since the last success. */
                            failures: number;
                            nextProbeAt: string | null;
                            /**
                             * @description failing: its last attempt failed. held_back: so many failed in a row that its deliveries wait, and one is sent now and then to see whether it is back.
                             * @enum {string}
                             */
                            state: "ok" | "failing" | "held_back";
                        };
                        maxConcurrency: number | null;
                        name: string;
                        rateBurst: number | null;
                        ratePerSecond: number | null;
                        retry: {
                            baseMs: number | null;
                            capMs: number | null;
                            factor: number | null;
                            maxAttempts: number | null;
                        };
                        /**
                         * @description Deliveries of an endpoint that is not active wait.
                         * @enum {string}
                         */
                        state: "active" | "paused" | "disabled";
                        stateReason: string | null;
                        subscriptionCount: number;
                        timeoutMs: number | null;
                        /** Format: date-time */
                        updatedAt: string;
                        /** @description As it is dialled: normalised. */
                        url: string;
                    };
                };
            };
            /** @description A problem document (RFC 9457); docs/errors.md lists the codes. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": {
                        [key: string]: unknown;
                    };
                };
            };
        };
    };
    deleteEndpointsEndpointId: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                endpointId: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Default Response */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description A problem document (RFC 9457); docs/errors.md lists the codes. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": {
                        [key: string]: unknown;
                    };
                };
            };
        };
    };
    patchEndpointsEndpointId: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                endpointId: string;
            };
            cookie?: never;
        };
        /** @description What is left out stays; null takes the default. Headers are replaced as a whole; one with the value `********` keeps its value. */
        requestBody: {
            content: {
                "application/json": {
                    headers?: {
                        [key: string]: string;
                    } | null;
                    maxConcurrency?: number | null;
                    name?: string | null;
                    rateBurst?: number | null;
                    ratePerSecond?: number | null;
                    retry?: {
                        baseMs?: number | null;
                        capMs?: number | null;
                        factor?: number | null;
                        maxAttempts?: number | null;
                    } | null;
                    timeoutMs?: number | null;
                    /**
                     * @description http or https, to a public address.
                     * @example https://example.com/hooks
                     */
                    url?: string;
                };
            };
        };
        responses: {
            /** @description Default Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** Format: date-time */
                        createdAt: string;
                        /** @description What is in force: the settings above, with the defaults of this installation for null. */
                        effective: {
                            maxConcurrency: number;
                            rateBurst: number | null;
                            ratePerSecond: number | null;
                            retry: {
                                baseMs: number;
                                capMs: number;
                                factor: number;
                                maxAttempts: number;
                            };
                            timeoutMs: number;
                        };
                        endpointId: string;
                        /** @description Each value is `********` for credentials without the scope endpoints:secrets. */
                        headers: {
                            [key: string]: string;
                        };
                        health: {
                            failingSince: string | null;
                            /** @description Failed attempts since the last success. */
                            failures: number;
                            nextProbeAt: string | null;
                            /**
                             * @description failing: its last attempt failed. held_back: so many failed in a row that its deliveries wait, and one is sent now and then to see whether it is back.
                             * @enum {string}
                             */
                            state: "ok" | "failing" | "held_back";
                        };
                        maxConcurrency: number | null;
                        name: string;
                        rateBurst: number | null;
                        ratePerSecond: number | null;
                        retry: {
                            baseMs: number | null;
                            capMs: number | null;
                            factor: number | null;
                            maxAttempts: number | null;
                        };
                        /**
                         * @description Deliveries of an endpoint that is not active wait.
                         * @enum {string}
                         */
                        state: "active" | "paused" | "disabled";
                        stateReason: string | null;
                        subscriptionCount: number;
                        timeoutMs: number | null;
                        /** Format: date-time */
                        updatedAt: string;
                        /** @description As it is dialled: normalised. */
                        url: string;
                    };
                };
            };
            /** @description A problem document (RFC 9457); docs/errors.md lists the codes. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": {
                        [key: string]: unknown;
                    };
                };
            };
        };
    };
    postEndpointsEndpointIdDisable: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                endpointId: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": {
                    reason?: string;
                } | null;
            };
        };
        responses: {
            /** @description Default Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** Format: date-time */
                        createdAt: string;
                        /** @description What is in force: the settings above, with the defaults of this installation for null. */
                        effective: {
                            maxConcurrency: number;
                            rateBurst: number | null;
                            ratePerSecond: number | null;
                            retry: {
                                baseMs: number;
                                capMs: number;
                                factor: number;
                                maxAttempts: number;
                            };
                            timeoutMs: number;
                        };
                        endpointId: string;
                        /** @description Each value is `********` for credentials without the scope endpoints:secrets. */
                        headers: {
                            [key: string]: string;
                        };
                        health: {
                            failingSince: string | null;
                            /** @description Failed attempts since the last success. */
                            failures: number;
                            nextProbeAt: string | null;
                            /**
                             * @description failing: its last attempt failed. held_back: so many failed in a row that its deliveries wait, and one is sent now and then to see whether it is back.
                             * @enum {string}
                             */
                            state: "ok" | "failing" | "held_back";
                        };
                        maxConcurrency: number | null;
                        name: string;
                        rateBurst: number | null;
                        ratePerSecond: number | null;
                        retry: {
                            baseMs: number | null;
                            capMs: number | null;
                            factor: number | null;
                            maxAttempts: number | null;
                        };
                        /**
                         * @description Deliveries of an endpoint that is not active wait.
                         * @enum {string}
                         */
                        state: "active" | "paused" | "disabled";
                        stateReason: string | null;
                        subscriptionCount: number;
                        timeoutMs: number | null;
                        /** Format: date-time */
                        updatedAt: string;
                        /** @description As it is dialled: normalised. */
                        url: string;
                    };
                };
            };
            /** @description A problem document (RFC 9457); docs/errors.md lists the codes. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": {
                        [key: string]: unknown;
                    };
                };
            };
        };
    };
    postEndpointsEndpointIdEnable: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                endpointId: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": {
                    reason?: string;
                } | null;
            };
        };
        responses: {
            /** @description Default Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** Format: date-time */
                        createdAt: string;
                        /** @description What is in force: the settings above, with the defaults of this installation for null. */
                        effective: {
                            maxConcurrency: number;
                            rateBurst: number | null;
                            ratePerSecond: number | null;
                            retry: {
                                baseMs: number;
                                capMs: number;
                                factor: number;
                                maxAttempts: number;
                            };
                            timeoutMs: number;
                        };
                        endpointId: string;
                        /** @description Each value is `********` for credentials without the scope endpoints:secrets. */
                        headers: {
                            [key: string]: string;
                        };
                        health: {
                            failingSince: string | null;
                            /** @description Failed attempts since the last success. */
                            failures: number;
                            nextProbeAt: string | null;
                            /**
                             * @description failing: its last attempt failed. held_back: so many failed in a row that its deliveries wait, and one is sent now and then to see whether it is back.
                             * @enum {string}
                             */
                            state: "ok" | "failing" | "held_back";
                        };
                        maxConcurrency: number | null;
                        name: string;
                        rateBurst: number | null;
                        ratePerSecond: number | null;
                        retry: {
                            baseMs: number | null;
                            capMs: number | null;
                            factor: number | null;
                            maxAttempts: number | null;
                        };
                        /**
                         * @description Deliveries of an endpoint that is not active wait.
                         * @enum {string}
                         */
                        state: "active" | "paused" | "disabled";
                        stateReason: string | null;
                        subscriptionCount: number;
                        timeoutMs: number | null;
                        /** Format: date-time */
                        updatedAt: string;
                        /** @description As it is dialled: normalised. */
                        url: string;
                    };
                };
            };
            /** @description A problem document (RFC 9457); docs/errors.md lists the codes. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": {
                        [key: string]: unknown;
                    };
                };
            };
        };
    };
    postEndpointsEndpointIdPause: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                endpointId: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": {
                    reason?: string;
                } | null;
            };
        };
        responses: {
            /** @description Default Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** Format: date-time */
                        createdAt: string;
                        /** @description What is in force: the settings above, with the defaults of this installation for null. */
                        effective: {
                            maxConcurrency: number;
                            rateBurst: number | null;
                            ratePerSecond: number | null;
                            retry: {
                                baseMs: number;
                                capMs: number;
                                factor: number;
                                maxAttempts: number;
                            };
                            timeoutMs: number;
                        };
                        endpointId: string;
                        /** @description Each value is `********` for credentials without the scope endpoints:secrets. */
                        headers: {
                            [key: string]: string;
                        };
                        health: {
                            failingSince: string | null;
                            /** @description Failed attempts since the last success. */
                            failures: number;
                            nextProbeAt: string | null;
                            /**
                             * @description failing: its last attempt failed. held_back: so many failed in a row that its deliveries wait, and one is sent now and then to see whether it is back.
                             * @enum {string}
                             */
                            state: "ok" | "failing" | "held_back";
                        };
                        maxConcurrency: number | null;
                        name: string;
                        rateBurst: number | null;
                        ratePerSecond: number | null;
                        retry: {
                            baseMs: number | null;
                            capMs: number | null;
                            factor: number | null;
                            maxAttempts: number | null;
                        };
                        /**
                         * @description Deliveries of an endpoint that is not active wait.
                         * @enum {string}
                         */
                        state: "active" | "paused" | "disabled";
                        stateReason: string | null;
                        subscriptionCount: number;
                        timeoutMs: number | null;
                        /** Format: date-time */
                        updatedAt: string;
                        /** @description As it is dialled: normalised. */
                        url: string;
                    };
                };
            };
            /** @description A problem document (RFC 9457); docs/errors.md lists the codes. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": {
                        [key: string]: unknown;
                    };
                };
            };
        };
    };
    postEndpointsEndpointIdReplay: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                endpointId: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": {
                    /** Format: date-time */
                    since: string;
                };
            };
        };
        responses: {
            /** @description Default Response */
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** Format: date-time */
                        createdAt: string;
                        /** @description Why it failed. */
                        error: string | null;
                        finishedAt: string | null;
                        jobId: string;
                        replayed: number;
                        requestedBy: string;
                        /**
                         * @description `failed`: five steps in a row went wrong. What was reopened until then stays reopened; a new job covers the rest.
                         * @enum {unknown}
                         */
                        state: "running" | "completed" | "cancelled" | "failed";
                        /** @description What it covered when it was made. */
                        total: number;
                    };
                };
            };
            /** @description A problem document (RFC 9457); docs/errors.md lists the codes. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": {
                        [key: string]: unknown;
                    };
                };
            };
        };
    };
    postEndpointsEndpointIdResume: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                endpointId: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": {
                    reason?: string;
                } | null;
            };
        };
        responses: {
            /** @description Default Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** Format: date-time */
                        createdAt: string;
                        /** @description What is in force: the settings above, with the defaults of this installation for null. */
                        effective: {
                            maxConcurrency: number;
                            rateBurst: number | null;
                            ratePerSecond: number | null;
                            retry: {
                                baseMs: number;
                                capMs: number;
                                factor: number;
                                maxAttempts: number;
                            };
                            timeoutMs: number;
                        };
                        endpointId: string;
                        /** @description Each value is `********` for credentials without the scope endpoints:secrets. */
                        headers: {
                            [key: string]: string;
                        };
                        health: {
                            failingSince: string | null;
                            /** @description Failed attempts since the last success. */
                            failures: number;
                            nextProbeAt: string | null;
                            /**
                             * @description failing: its last attempt failed. held_back: so many failed in a row that its deliveries wait, and one is sent now and then to see whether it is back.
                             * @enum {string}
                             */
                            state: "ok" | "failing" | "held_back";
                        };
                        maxConcurrency: number | null;
                        name: string;
                        rateBurst: number | null;
                        ratePerSecond: number | null;
                        retry: {
                            baseMs: number | null;
                            capMs: number | null;
                            factor: number | null;
                            maxAttempts: number | null;
                        };
                        /**
                         * @description Deliveries of an endpoint that is not active wait.
                         * @enum {string}
                         */
                        state: "active" | "paused" | "disabled";
                        stateReason: string | null;
                        subscriptionCount: number;
                        timeoutMs: number | null;
                        /** Format: date-time */
                        updatedAt: string;
                        /** @description As it is dialled: normalised. */
                        url: string;
                    };
                };
            };
            /** @description A problem document (RFC 9457); docs/errors.md lists the codes. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": {
                        [key: string]: unknown;
                    };
                };
            };
        };
    };
    postEndpointsEndpointIdRotateSecret: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                endpointId: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": {
                    /** @description How long old secrets sign beside the new one; default delivery.secretOverlapS. */
                    overlapSeconds?: number;
                    /** @description `whsec_` and the base64 of 24 to 64 bytes. Left out, one is made. */
                    secret?: string;
                } | null;
            };
        };
        responses: {
            /** @description Default Response */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** @description The new one. Later only shown to the scope endpoints:secrets. */
                        secret: string;
                        /** @description Newest first, without the secrets themselves. */
                        secrets: {
                            /** Format: date-time */
                            createdAt: string;
                            /** @description Until then it signs beside the newest one, which has no end. */
                            expiresAt: string | null;
                            secretId: string;
                        }[];
                    };
                };
            };
            /** @description A problem document (RFC 9457); docs/errors.md lists the codes. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": {
                        [key: string]: unknown;
                    };
                };
            };
        };
    };
    getEndpointsEndpointIdSecrets: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                endpointId: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Default Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** @description Newest first, without the secrets themselves. */
                        data: {
                            /** Format: date-time */
                            createdAt: string;
                            /** @description Until then it signs beside the newest one, which has no end. */
                            expiresAt: string | null;
                            secretId: string;
                        }[];
                    };
                };
            };
            /** @description A problem document (RFC 9457); docs/errors.md lists the codes. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": {
                        [key: string]: unknown;
                    };
                };
            };
        };
    };
    getEndpointsEndpointIdSecretsCurrent: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                endpointId: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Default Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** Format: date-time */
                        createdAt: string;
                        /** @description Until then it signs beside the newest one, which has no end. */
                        expiresAt: string | null;
                        /** @description `whsec_` and the base64 of the secret. */
                        secret: string;
                        secretId: string;
                    };
                };
            };
            /** @description A problem document (RFC 9457); docs/errors.md lists the codes. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": {
                        [key: string]: unknown;
                    };
                };
            };
        };
    };
    getEndpointsEndpointIdSubscriptions: {
        parameters: {
            query?: {
                /** @description Rows on a page. */
                limit?: number;
                /** @description `nextCursor` of the page before. */
                cursor?: string;
            };
            header?: never;
            path: {
                endpointId: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Default Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        data: {
                            /** Format: date-time */
                            createdAt: string;
                            endpointId: string;
                            filter: string | null;
                            pattern: string;
                            subscriptionId: string;
                        }[];
                        /** @description Where the next page begins; null on the last one. */
                        nextCursor: string | null;
                    };
                };
            };
            /** @description A problem document (RFC 9457); docs/errors.md lists the codes. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": {
                        [key: string]: unknown;
                    };
                };
            };
        };
    };
    postEndpointsEndpointIdSubscriptions: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                endpointId: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": {
                    /** @description A CEL expression over `event` and `payload`; null lets every event of the type through. */
                    filter?: string | null;
                    /**
                     * @description An event type, a prefix ending in `.*`, or `*`.
                     * @example order.*
                     */
                    pattern: string;
                };
            };
        };
        responses: {
            /** @description Default Response */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** Format: date-time */
                        createdAt: string;
                        endpointId: string;
                        filter: string | null;
                        pattern: string;
                        subscriptionId: string;
                    };
                };
            };
            /** @description A problem document (RFC 9457); docs/errors.md lists the codes. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": {
                        [key: string]: unknown;
                    };
                };
            };
        };
    };
    deleteEndpointsEndpointIdSubscriptionsSubscriptionId: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                endpointId: string;
                subscriptionId: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Default Response */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description A problem document (RFC 9457); docs/errors.md lists the codes. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": {
                        [key: string]: unknown;
                    };
                };
            };
        };
    };
    patchEndpointsEndpointIdSubscriptionsSubscriptionId: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                endpointId: string;
                subscriptionId: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": {
                    /** @description A CEL expression over `event` and `payload`; null lets every event of the type through. */
                    filter?: string | null;
                    /**
                     * @description An event type, a prefix ending in `.*`, or `*`.
                     * @example order.*
                     */
                    pattern?: string;
                };
            };
        };
        responses: {
            /** @description Default Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** Format: date-time */
                        createdAt: string;
                        endpointId: string;
                        filter: string | null;
                        pattern: string;
                        subscriptionId: string;
                    };
                };
            };
            /** @description A problem document (RFC 9457); docs/errors.md lists the codes. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": {
                        [key: string]: unknown;
                    };
                };
            };
        };
    };
    postEndpointsEndpointIdTestEvent: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                endpointId: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": {
                    /** @description Default: a short greeting. */
                    payload?: unknown;
                    /** @description Default: relayops.test */
                    type?: string;
                } | null;
            };
        };
        responses: {
            /** @description Default Response */
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** Format: date-time */
                        acceptedAt: string;
                        /** @description Deliveries that it caused; 0 when nobody subscribes to its type. Null for a repeat whose original has left by retention. */
                        deliveries: number | null;
                        /** Format: uuid */
                        eventId: string;
                    };
                };
            };
            /** @description A problem document (RFC 9457); docs/errors.md lists the codes. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": {
                        [key: string]: unknown;
                    };
                };
            };
        };
    };
    getEvents: {
        parameters: {
            query?: {
                limit?: number;
                cursor?: string;
                /** @description Exact event type. */
                type?: string;
                /** @description Accepted at or after. */
                from?: string;
                /** @description Accepted before. */
                to?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Default Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        data: {
                            /** Format: date-time */
                            acceptedAt: string;
                            attributes: {
                                [key: string]: string;
                            } | null;
                            contentType: string;
                            deliveryCount: number;
                            eventId: string;
                            /** @description native, cloudevents-structured, cloudevents-binary, test or operational */
                            format: string;
                            idempotencyKey: string | null;
                            occurredAt: string | null;
                            payloadBytes: number;
                            traceparent: string | null;
                            type: string;
                        }[];
                        /** @description Where the next page begins; null on the last one. */
                        nextCursor: string | null;
                    };
                };
            };
            /** @description A problem document (RFC 9457); docs/errors.md lists the codes. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": {
                        [key: string]: unknown;
                    };
                };
            };
        };
    };
    postEvents: {
        parameters: {
            query?: never;
            header?: {
                /** @description A repeat with the same key gets the original answer. */
                "idempotency-key"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": {
                    /** @description A repeat with the same key gets the original answer and causes nothing. The Idempotency-Key header does the same. */
                    idempotencyKey?: string;
                    /**
                     * Format: date-time
                     * @description When it happened, if that is not now.
                     */
                    occurredAt?: string;
                    /** @description Any JSON value. Its bytes are kept and delivered exactly as sent. */
                    payload: unknown;
                    /**
                     * @description Dot-separated name, e.g. `order.paid`.
                     * @example order.paid
                     */
                    type: string;
                };
            };
        };
        responses: {
            /** @description Default Response */
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** Format: date-time */
                        acceptedAt: string;
                        /** @description Deliveries that it caused; 0 when nobody subscribes to its type. Null for a repeat whose original has left by retention. */
                        deliveries: number | null;
                        /** Format: uuid */
                        eventId: string;
                    };
                };
            };
            /** @description A problem document (RFC 9457); docs/errors.md lists the codes. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": {
                        [key: string]: unknown;
                    };
                };
            };
        };
    };
    postEventsBatch: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": {
                    events: {
                        /** @description A repeat with the same key gets the original answer and causes nothing. The Idempotency-Key header does the same. */
                        idempotencyKey?: string;
                        /**
                         * Format: date-time
                         * @description When it happened, if that is not now.
                         */
                        occurredAt?: string;
                        /** @description Any JSON value. Its bytes are kept and delivered exactly as sent. */
                        payload: unknown;
                        /**
                         * @description Dot-separated name, e.g. `order.paid`.
                         * @example order.paid
                         */
                        type: string;
                    }[];
                };
            };
        };
        responses: {
            /** @description Default Response */
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        accepted: number;
                        rejected: number;
                        /** @description One for each event, in the order sent. */
                        results: ({
                            /** Format: date-time */
                            acceptedAt: string;
                            /** @description Deliveries that it caused; 0 when nobody subscribes to its type. Null for a repeat whose original has left by retention. */
                            deliveries: number | null;
                            /** Format: uuid */
                            eventId: string;
                            replayed: boolean;
                            /** @enum {string} */
                            status: "accepted";
                        } | {
                            /** @description A problem document. */
                            error: {
                                [key: string]: unknown;
                            };
                            /** @enum {string} */
                            status: "rejected";
                        })[];
                    };
                };
            };
            /** @description A problem document (RFC 9457); docs/errors.md lists the codes. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": {
                        [key: string]: unknown;
                    };
                };
            };
        };
    };
    getEventsEventId: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                eventId: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Default Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** Format: date-time */
                        acceptedAt: string;
                        attributes: {
                            [key: string]: string;
                        } | null;
                        contentType: string;
                        deliveryCount: number;
                        eventId: string;
                        /** @description native, cloudevents-structured, cloudevents-binary, test or operational */
                        format: string;
                        idempotencyKey: string | null;
                        occurredAt: string | null;
                        payloadBytes: number;
                        traceparent: string | null;
                        type: string;
                    };
                };
            };
            /** @description A problem document (RFC 9457); docs/errors.md lists the codes. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": {
                        [key: string]: unknown;
                    };
                };
            };
        };
    };
    getEventsEventIdPayload: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                eventId: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Default Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": unknown;
                };
            };
            /** @description A problem document (RFC 9457); docs/errors.md lists the codes. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": {
                        [key: string]: unknown;
                    };
                };
            };
        };
    };
    getMe: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Default Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** @description `user:<ID>` or `key:<ID>`. */
                        actor: string;
                        scopes: ("events:write" | "events:read" | "endpoints:read" | "endpoints:write" | "endpoints:secrets" | "deliveries:read" | "deliveries:write" | "keys:read" | "keys:write" | "users:read" | "users:write" | "stats:read")[];
                        tenantId: string;
                        user: {
                            email: string;
                            /** @enum {string} */
                            role: "owner" | "admin" | "developer" | "viewer";
                            userId: string;
                        } | null;
                    };
                };
            };
            /** @description A problem document (RFC 9457); docs/errors.md lists the codes. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": {
                        [key: string]: unknown;
                    };
                };
            };
        };
    };
    postMePassword: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": {
                    currentPassword: string;
                    /** @description 12 to 256 characters of any kind. */
                    newPassword: string;
                };
            };
        };
        responses: {
            /** @description Default Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        accessToken: string;
                        /** @description Life of the access token. */
                        expiresInSeconds: number;
                        /** @description Works once, and gives the next. */
                        refreshToken: string;
                        /** @enum {string} */
                        tokenType: "Bearer";
                    };
                };
            };
            /** @description A problem document (RFC 9457); docs/errors.md lists the codes. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": {
                        [key: string]: unknown;
                    };
                };
            };
        };
    };
    getReplays: {
        parameters: {
            query?: {
                limit?: number;
                cursor?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Default Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        data: {
                            /** Format: date-time */
                            createdAt: string;
                            /** @description Why it failed. */
                            error: string | null;
                            finishedAt: string | null;
                            jobId: string;
                            replayed: number;
                            requestedBy: string;
                            /**
                             * @description `failed`: five steps in a row went wrong. What was reopened until then stays reopened; a new job covers the rest.
                             * @enum {unknown}
                             */
                            state: "running" | "completed" | "cancelled" | "failed";
                            /** @description What it covered when it was made. */
                            total: number;
                        }[];
                        /** @description Where the next page begins; null on the last one. */
                        nextCursor: string | null;
                    };
                };
            };
            /** @description A problem document (RFC 9457); docs/errors.md lists the codes. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": {
                        [key: string]: unknown;
                    };
                };
            };
        };
    };
    postReplays: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": {
                    /** @description Only count what it would cover. */
                    dryRun?: boolean;
                    endpointId?: string;
                    eventType?: string;
                    /**
                     * Format: date-time
                     * @description Event accepted at or after.
                     */
                    from?: string;
                    /** @description Exact reason, e.g. `attempts_exhausted`. */
                    reason?: string;
                    /** @description Default: failed and dead. */
                    states?: ("failed" | "dead" | "cancelled")[];
                    /**
                     * Format: date-time
                     * @description Event accepted before.
                     */
                    to?: string;
                };
            };
        };
        responses: {
            /** @description Default Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        count: number;
                        /** @enum {boolean} */
                        dryRun: true;
                        exact: boolean;
                    };
                };
            };
            /** @description Default Response */
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** Format: date-time */
                        createdAt: string;
                        /** @description Why it failed. */
                        error: string | null;
                        finishedAt: string | null;
                        jobId: string;
                        replayed: number;
                        requestedBy: string;
                        /**
                         * @description `failed`: five steps in a row went wrong. What was reopened until then stays reopened; a new job covers the rest.
                         * @enum {unknown}
                         */
                        state: "running" | "completed" | "cancelled" | "failed";
                        /** @description What it covered when it was made. */
                        total: number;
                    };
                };
            };
            /** @description A problem document (RFC 9457); docs/errors.md lists the codes. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": {
                        [key: string]: unknown;
                    };
                };
            };
        };
    };
    getReplaysJobId: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                jobId: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Default Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** Format: date-time */
                        createdAt: string;
                        /** @description Why it failed. */
                        error: string | null;
                        finishedAt: string | null;
                        jobId: string;
                        replayed: number;
                        requestedBy: string;
                        /**
                         * @description `failed`: five steps in a row went wrong. What was reopened until then stays reopened; a new job covers the rest.
                         * @enum {unknown}
                         */
                        state: "running" | "completed" | "cancelled" | "failed";
                        /** @description What it covered when it was made. */
                        total: number;
                    };
                };
            };
            /** @description A problem document (RFC 9457); docs/errors.md lists the codes. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": {
                        [key: string]: unknown;
                    };
                };
            };
        };
    };
    postReplaysJobIdCancel: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                jobId: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Default Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** Format: date-time */
                        createdAt: string;
                        /** @description Why it failed. */
                        error: string | null;
                        finishedAt: string | null;
                        jobId: string;
                        replayed: number;
                        requestedBy: string;
                        /**
                         * @description `failed`: five steps in a row went wrong. What was reopened until then stays reopened; a new job covers the rest.
                         * @enum {unknown}
                         */
                        state: "running" | "completed" | "cancelled" | "failed";
                        /** @description What it covered when it was made. */
                        total: number;
                    };
                };
            };
            /** @description A problem document (RFC 9457); docs/errors.md lists the codes. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": {
                        [key: string]: unknown;
                    };
                };
            };
        };
    };
    postSignup: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": {
                    bootstrapToken: string;
                    /** Format: email */
                    email: string;
                    /** @description 12 to 256 characters of any kind. */
                    password: string;
                    tenantName: string;
                };
            };
        };
        responses: {
            /** @description Default Response */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        session: {
                            accessToken: string;
                            /** @description Life of the access token. */
                            expiresInSeconds: number;
                            /** @description Works once, and gives the next. */
                            refreshToken: string;
                            /** @enum {string} */
                            tokenType: "Bearer";
                        };
                        tenant: {
                            /** Format: date-time */
                            createdAt: string;
                            name: string;
                            tenantId: string;
                        };
                        user: {
                            /** Format: date-time */
                            createdAt: string;
                            /** @description Lists leave deleted users out; by its ID one is still found. */
                            deletedAt: string | null;
                            disabledAt: string | null;
                            email: string;
                            /** @enum {string} */
                            role: "owner" | "admin" | "developer" | "viewer";
                            userId: string;
                        };
                    };
                };
            };
            /** @description A problem document (RFC 9457); docs/errors.md lists the codes. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": {
                        [key: string]: unknown;
                    };
                };
            };
        };
    };
    getStats: {
        parameters: {
            query?: {
                /** @description Window, back from now. */
                minutes?: number;
                endpointId?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Default Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** @description Of events in the window, by state. */
                        deliveries: {
                            [key: string]: number;
                        };
                        deliveriesExact: boolean;
                        /** @description Not exact: at least that many; counting stopped at a bound. */
                        events: {
                            count: number;
                            exact: boolean;
                        };
                        oldestDueAt: string | null;
                        /** @description Not exact: at least that many; counting stopped at a bound. */
                        open: {
                            count: number;
                            exact: boolean;
                        };
                        window: {
                            /** Format: date-time */
                            from: string;
                            /** Format: date-time */
                            to: string;
                        };
                    };
                };
            };
            /** @description A problem document (RFC 9457); docs/errors.md lists the codes. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": {
                        [key: string]: unknown;
                    };
                };
            };
        };
    };
    getTenant: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Default Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** Format: date-time */
                        createdAt: string;
                        name: string;
                        tenantId: string;
                    };
                };
            };
            /** @description A problem document (RFC 9457); docs/errors.md lists the codes. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": {
                        [key: string]: unknown;
                    };
                };
            };
        };
    };
    patchTenant: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": {
                    name: string;
                };
            };
        };
        responses: {
            /** @description Default Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** Format: date-time */
                        createdAt: string;
                        name: string;
                        tenantId: string;
                    };
                };
            };
            /** @description A problem document (RFC 9457); docs/errors.md lists the codes. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": {
                        [key: string]: unknown;
                    };
                };
            };
        };
    };
    getUsers: {
        parameters: {
            query?: {
                /** @description Rows on a page. */
                limit?: number;
                /** @description `nextCursor` of the page before. */
                cursor?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Default Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        data: {
                            /** Format: date-time */
                            createdAt: string;
                            /** @description Lists leave deleted users out; by its ID one is still found. */
                            deletedAt: string | null;
                            disabledAt: string | null;
                            email: string;
                            /** @enum {string} */
                            role: "owner" | "admin" | "developer" | "viewer";
                            userId: string;
                        }[];
                        /** @description Where the next page begins; null on the last one. */
                        nextCursor: string | null;
                    };
                };
            };
            /** @description A problem document (RFC 9457); docs/errors.md lists the codes. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": {
                        [key: string]: unknown;
                    };
                };
            };
        };
    };
    postUsers: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": {
                    /** Format: email */
                    email: string;
                    /** @description 12 to 256 characters of any kind. */
                    password: string;
                    /** @enum {string} */
                    role: "owner" | "admin" | "developer" | "viewer";
                };
            };
        };
        responses: {
            /** @description Default Response */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** Format: date-time */
                        createdAt: string;
                        /** @description Lists leave deleted users out; by its ID one is still found. */
                        deletedAt: string | null;
                        disabledAt: string | null;
                        email: string;
                        /** @enum {string} */
                        role: "owner" | "admin" | "developer" | "viewer";
                        userId: string;
                    };
                };
            };
            /** @description A problem document (RFC 9457); docs/errors.md lists the codes. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": {
                        [key: string]: unknown;
                    };
                };
            };
        };
    };
    getUsersUserId: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                userId: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Default Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** Format: date-time */
                        createdAt: string;
                        /** @description Lists leave deleted users out; by its ID one is still found. */
                        deletedAt: string | null;
                        disabledAt: string | null;
                        email: string;
                        /** @enum {string} */
                        role: "owner" | "admin" | "developer" | "viewer";
                        userId: string;
                    };
                };
            };
            /** @description A problem document (RFC 9457); docs/errors.md lists the codes. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": {
                        [key: string]: unknown;
                    };
                };
            };
        };
    };
    deleteUsersUserId: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                userId: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Default Response */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description A problem document (RFC 9457); docs/errors.md lists the codes. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": {
                        [key: string]: unknown;
                    };
                };
            };
        };
    };
    patchUsersUserId: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                userId: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": {
                    disabled?: boolean;
                    /** @enum {string} */
                    role?: "owner" | "admin" | "developer" | "viewer";
                };
            };
        };
        responses: {
            /** @description Default Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** Format: date-time */
                        createdAt: string;
                        /** @description Lists leave deleted users out; by its ID one is still found. */
                        deletedAt: string | null;
                        disabledAt: string | null;
                        email: string;
                        /** @enum {string} */
                        role: "owner" | "admin" | "developer" | "viewer";
                        userId: string;
                    };
                };
            };
            /** @description A problem document (RFC 9457); docs/errors.md lists the codes. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": {
                        [key: string]: unknown;
                    };
                };
            };
        };
    };
    postUsersUserIdPasswordReset: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                userId: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Default Response */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** Format: date-time */
                        expiresAt: string;
                        /** @description Shown now and never again. Works once, at /v1/auth/password-reset. */
                        resetToken: string;
                        userId: string;
                    };
                };
            };
            /** @description A problem document (RFC 9457); docs/errors.md lists the codes. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": {
                        [key: string]: unknown;
                    };
                };
            };
        };
    };
}
